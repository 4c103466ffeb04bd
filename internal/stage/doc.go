// Package stage measures where the time of an index build goes: wall time and
// CPU time per stage, taken per worker with one [Clock] each and added up.
//
// CPU time is that of the operating system thread, so a goroutine that carries
// a Clock stays locked to its thread (runtime.LockOSThread) while it runs. Work
// that a library moves to goroutines of its own is not seen by the clocks; the
// CPU time of the whole process ([ProcessCPU]) shows how much that is.
package stage
