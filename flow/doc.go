// Package flow is the flow control: it slows index builds and compactions down so that
// foreground statements are not. The kernel's scheduler does most of it; signals go in, one decision comes out, a few actuators
// obey it.
//
// # Signals
//
// A [Sampler] gives [Signals], values, every 100 ms ([Interval]) while there are builds:
//
//	signal        unit             source
//	Statements    s per second     [StatementMeter]: package sql begins and ends each statement
//	Latencies     statements       [StatementMeter], by how long they took
//	Foreground    s of threads     /proc/self/task/*/schedstat, of threads of usual priority: builds' are of low priority
//	Target        s                the settings
//
// [LoadSampler] reads them; package flowtest has one for tests.
//
// # The decision
//
// [Controller] is pure code: it turns signals and time into a [Decision], a value, which
// [Governor] keeps for all to read. Its Share, in [0.1, 1], is the part of the time that workers
// of builds may run. It is 1 unless there is a Target and a foreground (10 ms of statements within a second). Then
// the 99th percentile is taken of some hundred statements that have ended since the last change, or of those of two seconds.
// Above the target the share falls by the root of their ratio, at most to a half; below 0.7 of it, it rises by a factor of 1.02 in an
// interval; between it stays, so that it settles rather than swings.
//
// What is not about a target the kernel decides. Shares by what threads wait for and by the latency of commits, and workers of the server
// that yielded to statements, moved no latency (docs/decisions/2026-11-29-the-kernel-divides-the-processors.md).
//
// # Actuators
//
//	actuator     registers by              obeys                what it does
//	workers      [Job.NewPacer]            Share                [Pacer.Pace] sleeps between two batches
//	             (the same)                the statements       of the build worker, and where threads have no priorities: waits,
//	                                                            5 ms at a time, while as many statements run as processors
//	bytes/s      [WriteQueue.NewThrottle]  the settings         [Throttle.Wait] spaces out writes; divides the node's speed by weight
//	compactions  [Reserve],                always               runs on a thread of low priority with a processor of its own,
//	             [BackgroundThread]                             unless L0 is so high that writers would soon wait
//
// Workers and imports are on threads of low priority. Go's scheduler has as many processors
// as there are cores, gives them to goroutines in turn for 10 ms each, and looks at the
// network only when one of them is idle. With as many busy workers as cores, each packet of a client
// therefore waits for 10 to 20 ms; a server of short queries is a hundred times slower.
// Two measures together avoid it: [Reserve] gives the scheduler more processors, so that
// foreground goroutines find a free one at once; [BackgroundThread] lets the operating system
// give the cores to foreground threads first, and to builds all that they leave. While processors
// are reserved GOMAXPROCS is not the number of cores: that is [Cores], and package ddl keeps
// what TiDB has written of it right ([ReservedSince]).
//
// # Who calls what
//
//	server            NewLoadSampler, Governor.Observe (through ingest.Resources.Govern)
//	sql               StatementMeter.Begin
//	ingest            NewGovernor, NewWriteQueue; for each job NewJob, Begin, End, NewThrottle, NewPacer
//	backfill, ingest  Pacer.Pace between two batches, BackgroundThread at the start of a worker
//	kv/pebblekv       Reserve and BackgroundThread for a compaction
//
// Binaries that are built with the tag benchflow can leave mechanisms out, which leaveout.go lists: make bench-flow measures what
// each is worth.
//
// Builds in a process of their own ([fastddl/backfill/worker]) yield by the kernel's scheduler (package idle), obey the decisions
// of the server's governor, which it sends them, and yield to its statements: [StatementMeter.Show] keeps their number where
// the process reads it.
//
// # Invariants
//
//   - A build never stops for good: Share is at least MinShare under all signals, a pacer's
//     waits for statements leave it MinShare of the time, and a sampler that panics leaves the
//     last decision in force.
//   - A statement never waits for flow: it adds to a counter, under a mutex that is
//     held for arithmetic only.
//   - Without jobs nothing is sampled, and the decision is [Full].
//   - Each wait ends with its context, but for the 5 ms that a worker yields.
//   - A worker waits only where it holds nothing that a statement needs.
//   - The package knows neither store, variables, events nor jobs of SQL: it gets callbacks and values.
package flow
