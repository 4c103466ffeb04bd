// Package background keeps CPU-bound work, of index builds and of compactions, from
// holding up the foreground of the same process.
//
// Go's scheduler has as many processors as there are cores, gives them to
// goroutines in turn for 10 ms each, and looks at the network only when one of
// them is idle. With as many busy workers as cores, each packet of a client
// therefore waits for 10 to 20 ms; a server of short queries is a hundred times
// slower. Two measures together avoid it:
//
//   - [Reserve] gives the scheduler more processors while such work goes on, so
//     that foreground goroutines find a free one at once. How the cores are
//     divided is then up to the operating system.
//   - [Thread] puts a worker on a thread of low priority, so that the operating
//     system gives the cores to foreground threads first, and to the work all
//     that they leave.
package background
