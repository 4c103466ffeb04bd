package flow

import "time"

// usage is what threads and processors did between two samples. What the
// operating system does not say is 0.
type usage struct {
	// Foreground is of the threads of the process with its usual priority, and
	// Background of those of low priority.
	Foreground, Background ThreadTime
	// Busy is the time that the machine's processors did something, summed.
	Busy time.Duration
}

func (t *ThreadTime) add(o ThreadTime) {
	t.Run += o.Run
	t.Wait += o.Wait
}

// since returns the time since an earlier reading. The number of a thread that has
// ended may be that of another, which began at 0.
func (t ThreadTime) since(earlier ThreadTime) ThreadTime {
	if t.Run < earlier.Run || t.Wait < earlier.Wait {
		return t
	}
	return ThreadTime{t.Run - earlier.Run, t.Wait - earlier.Wait}
}

// usageMeter samples the usage. The zero value is ready to use. It is not safe
// for concurrent use.
type usageMeter struct {
	threads map[int]ThreadTime
	busy    time.Duration
	begun   bool
}

// sample returns the usage since the sample before; that of the first is zero.
func (m *usageMeter) sample() usage {
	var u usage
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
		return usage{}
	}
	return u
}
