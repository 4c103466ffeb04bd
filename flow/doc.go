// Package flow is the flow control: it slows index builds and compactions down so that
// foreground statements are not. Signals go in, one decision comes out, a few actuators
// obey it.
//
// # Signals
//
// A [Sampler] gives [Signals], values, every 100 ms ([Interval]) while there are builds:
//
//	signal                       unit            source
//	Statements                   s per second    [StatementMeter]: package sql begins and ends each statement
//	Foreground, Builds           s of threads    /proc/self/task/*/schedstat; builds are the threads of low priority
//	Busy                         s of CPUs       /proc/stat: the whole machine
//	Commits, CommitTime          commits, s      the store ([StoreSignals])
//	Latencies                    statements      [StatementMeter], by how long they took
//	Target                       s               the settings
//
// [LoadSampler] reads them; package flowtest has one for tests. What the operating system does
// not say is 0 and puts no pressure.
//
// # The decision
//
// [Controller] is pure code: it turns signals and time into a [Decision], a value, which
// [Governor] keeps for all to read. Its Share, in [0.1, 1], is the part of the time that workers
// of builds may run. Without foreground statements (10 ms within a second) it is 1. With them each
// signal becomes a pressure, of which 1 is the most that is tolerated:
//
//   - processors: how much longer the foreground needs because its threads wait for a
//     processor, in units of 0.5 of what it needs else. Builds count with their part of what
//     all processors do, so they yield neither to what the foreground does to itself nor to
//     other processes more than it helps. Compactions count as builds, from which most of
//     them come while one runs;
//   - commit latency: how much longer statements take because commits take longer than
//     when builds hardly run, in units of 0.25 of what they take else. A store that stalls writers
//     shows here.
//
// If there is a Target, the 99th percentile of statements has a ceiling of the share of its own: it is taken of some
// hundred statements that have ended since the last change, or of those of two seconds. Above the target the ceiling falls
// as the share does, below 0.7 of it it rises by a factor of 1.02 in an interval, and it does not fall below [MinShare].
//
// The greatest pressure p moves the share in each interval: above 1 it falls by p^-0.5, at most
// to a half; below 0.7 it rises by a factor of 1.08; between it stays, so that it settles rather
// than swings. It does not fall below [MinShare] beside a foreground that uses a fifth of the machine, nor
// below a half beside one that uses nothing of it. The files controller.go and pressure.go name
// each constant.
//
// # Actuators
//
//	actuator     registers by              obeys                what it does
//	workers      [Job.NewPacer]            Share                [Pacer.Pace] sleeps between two batches
//	             (the same)                the statements       waits, 5 ms at a time, while as many run as processors
//	bytes/s      [WriteQueue.NewThrottle]  the settings         [Throttle.Wait] spaces out writes; divides the node's speed by weight
//	compactions  [Reserve],                always               runs on a thread of low priority with a processor of its own,
//	             [BackgroundThread]                             unless L0 is so high that writers would soon wait
//
// Workers and imports are also on threads of low priority. Go's scheduler has as many processors
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
