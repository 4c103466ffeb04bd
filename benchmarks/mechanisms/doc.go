// Package mechanisms measures what each mechanism of flow control is worth: what statements see, and how long builds take,
// with all mechanisms and with each of them left out:
//
//	yield        workers of the build worker wait for statements that are executed
//	priority     the nice value 10 of builds and compactions; without it 1, by which the governor tells them still
//	reserve      processors that Go's scheduler has more while builds and compactions run
//	compactions  compactions on threads of low priority
//
// All variants use one store, one after the other, in rounds. A round visits each variant once, in random order: the server
// is started with what the variant leaves out, warmed up, and measured beside each load. In such a slot indexes are
// added and dropped without a pause. Two variants are equal: what they differ by is noise.
//
// The server has to be built with the tag benchflow, which lets an environment variable leave mechanisms out. Where builds run
// is a global variable of the server; places that it does not know are skipped.
package mechanisms
