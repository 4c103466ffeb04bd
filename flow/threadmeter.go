package flow

import "time"

// threadMeter measures the time of the threads of this process that have its usual priority: that they ran, or waited for a processor. The
// zero value is ready to use. It is not safe for concurrent use.
type threadMeter struct {
	threads map[int]time.Duration
}

// sample returns the time since the sample before, summed; that of the first is zero, as where the operating system does not say.
func (m *threadMeter) sample() (sum time.Duration) {
	threads := make(map[int]time.Duration, len(m.threads))
	forEachThread(func(id int, low bool, total time.Duration) {
		if low {
			return
		}
		threads[id] = total
		// The number of a thread that has ended may be that of another, which began at 0.
		if before := m.threads[id]; total > before {
			sum += total - before
		} else if total < before {
			sum += total
		}
	})
	first := m.threads == nil
	m.threads = threads
	if first {
		return 0
	}
	return sum
}
