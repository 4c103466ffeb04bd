package flow

import "time"

// Usage is what threads and processors did between two samples. What the
// operating system does not tell is 0.
type Usage struct {
	// Foreground is of the threads of the process with its usual priority, and
	// Background of those of low priority.
	Foreground, Background ThreadTime
	// Busy is the time that the machine's processors did something, summed.
	Busy time.Duration
}

// ThreadTime is the time that threads ran, and waited for a processor though they
// could have run, summed.
type ThreadTime struct{ Run, Wait time.Duration }

func (t *ThreadTime) add(o ThreadTime) {
	t.Run += o.Run
	t.Wait += o.Wait
}

// since is the time from an earlier reading on. The number of a thread that has
// ended may be that of another, which began at nothing.
func (t ThreadTime) since(earlier ThreadTime) ThreadTime {
	if t.Run < earlier.Run || t.Wait < earlier.Wait {
		return t
	}
	return ThreadTime{t.Run - earlier.Run, t.Wait - earlier.Wait}
}

// UsageMeter samples the usage. The zero value is ready to use. It is not safe
// for concurrent use.
type UsageMeter struct {
	threads map[int]ThreadTime
	busy    time.Duration
	begun   bool
}

// Sample returns the usage since the sample before; that of the first is zero.
func (m *UsageMeter) Sample() Usage {
	var u Usage
	threads := make(map[int]ThreadTime, len(m.threads))
	forEachThread(func(id int, low bool, total ThreadTime) {
		threads[id] = total
		sum := &u.Foreground
		if low {
			sum = &u.Background
		}
		sum.add(total.since(m.threads[id]))
	})
	busy := busyTime()
	u.Busy = max(0, busy-m.busy)
	m.threads, m.busy = threads, busy
	if !m.begun {
		m.begun = true
		return Usage{}
	}
	return u
}
