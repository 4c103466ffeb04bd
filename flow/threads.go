package flow

import (
	"runtime"
	"sync"
)

// niceness is the priority of background threads. One of them gets about a
// tenth of the time of a foreground thread that competes with it. With leastNiceness it gets four
// fifths, and is still told from a foreground thread by the sampler.
const (
	niceness      = 10
	leastNiceness = 1
)

var procs struct {
	mu       sync.Mutex
	cores    int // when nothing is reserved
	reserved int
	changes  uint64 // how often reserved has changed
}

// Cores returns the number of processors there are without those reserved.
func Cores() int {
	procs.mu.Lock()
	defer procs.mu.Unlock()
	if procs.reserved == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return procs.cores
}

// ReservedSince says whether processors are reserved, or have been at some time since it returned
// since. The first since is 0.
func ReservedSince(since uint64) (now uint64, reserved bool) {
	procs.mu.Lock()
	defer procs.mu.Unlock()
	return procs.changes, procs.reserved > 0 || procs.changes != since
}

// Reserve adds n processors to the scheduler, for n threads of background
// work, until release is called.
func Reserve(n int) (release func()) {
	if leaveOutReserve {
		return func() {}
	}
	changeReserved(n)
	return sync.OnceFunc(func() { changeReserved(-n) })
}

func changeReserved(n int) {
	procs.mu.Lock()
	defer procs.mu.Unlock()
	if procs.reserved == 0 {
		procs.cores = runtime.GOMAXPROCS(0)
	}
	procs.reserved += n
	procs.changes++
	runtime.GOMAXPROCS(procs.cores + procs.reserved)
}

// BackgroundThread moves the calling goroutine to a thread of low priority until it ends,
// and the thread with it. Where the operating system does not know priorities
// of threads it only binds the goroutine to one.
func BackgroundThread() {
	// Never unlocked: a thread's priority cannot be raised again, so that it must
	// not serve another goroutine. The runtime ends it instead.
	runtime.LockOSThread()
	nice := niceness
	if leaveOutPriority {
		nice = leastNiceness
	}
	lowerPriority(nice)
}
