// Package flow keeps index builds and compactions from holding up foreground statements: it
// measures the foreground, decides how much of the machine builds may use beside it, and has
// work in the background keep to that.
//
// # The decision
//
// [Controller] is pure code: signals and time go in, a decision comes out.
//
// Without foreground statements builds have everything. With them, each signal
// is turned into a pressure, of which 1 is the most that is tolerated:
//
//   - processors: how much longer the foreground needs because its threads wait for
//     a processor, as far as builds are to blame, which is in proportion to their
//     part of what all processors do: they give way neither to what the foreground
//     does to itself nor to other processes more than it helps. Compactions count
//     as builds, which most of them come from while one runs;
//   - commit latency: how much longer statements take because commits take longer
//     than when builds hardly run;
//   - the store's load: sublevels of L0, compaction debt, stalled writers.
//
// The greatest pressure moves the share of the machine that builds have: above 1
// it falls by a factor that grows with the pressure, well below 1 it rises
// slowly, and between it stays, so that it settles rather than swings. It never
// falls below a floor, which is the higher the less of the machine the foreground
// uses.
//
// # Threads
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
//   - [BackgroundThread] puts a worker on a thread of low priority, so that the operating
//     system gives the cores to foreground threads first, and to the work all
//     that they leave.
package flow
