package job

import (
	"slices"
	"time"
)

const (
	// rateWindow is the time over which a rate is averaged, leastInterval the least
	// over which it is measured.
	rateWindow    = 5 * time.Second
	leastInterval = 50 * time.Millisecond
	// longestWindow bounds the time that the remaining time is estimated by, which is half
	// of that since the stage has begun. Over a short time a build that stands still, because
	// its workers all write what they have sorted, say, seems to last for ever.
	longestWindow = time.Minute
	// longestGap is the longest time without a report that is time of a build: it may have been paused.
	longestGap = 5 * time.Second
	// leastYields is the time that must be seen of a build before its yielding says something.
	leastYields = time.Second
)

// part is a part of the work that each row takes.
type part struct {
	done int64
	// rate is the number of rows per second lately, pace that over a longer time, and cost what each row took of the time of
	// workers over that, once they are measured; of is for how long.
	rate, pace, cost float64
	of               time.Duration
	measured         bool
	// samples are what was done at times since began, the oldest at the end of the longer
	// window; none while the part is not worked on. It is measured for the last time when
	// its stage has ended, at until.
	samples      []sample
	began, until time.Time
	untilWork    float64
}

type sample struct {
	time time.Time
	done int64
	// work are the seconds of workers up to then, without those in which they were held up.
	work float64
}

// begin begins to measure, at what is done.
func (p *part) begin(now time.Time, work float64) {
	p.samples, p.began = []sample{{now, p.done, work}}, now
}

// measure measures up to now. work are the seconds of workers up to then.
func (p *part) measure(now time.Time, work float64) {
	n := len(p.samples)
	if n == 0 {
		return
	}
	if p.done < p.samples[n-1].done { // it begins again at its last checkpoint
		p.begin(now, work)
		return
	}
	if now.Sub(p.samples[n-1].time) < leastInterval && p.until.IsZero() {
		return
	}
	p.samples = append(p.samples, sample{now, p.done, work})
	window := min(max(now.Sub(p.began)/2, rateWindow), longestWindow)
	for now.Sub(p.samples[1].time) >= window {
		p.samples = p.samples[1:]
	}
	lately := 0
	for now.Sub(p.samples[lately+1].time) >= rateWindow {
		lately++
	}
	first := p.samples[0]
	if rows := p.done - first.done; rows > 0 || p.measured {
		p.rate, p.pace, p.measured = p.perSecond(lately, now), p.perSecond(0, now), true
		if p.of = now.Sub(first.time); rows > 0 {
			p.cost = max(0, work-first.work) / float64(rows)
		} else {
			p.cost = max(p.cost, work-first.work)
		}
	}
}

// perSecond is the number of rows per second since a sample.
func (p *part) perSecond(i int, now time.Time) float64 {
	since := p.samples[i]
	return float64(p.done-since.done) / max(now.Sub(since.time), time.Millisecond).Seconds()
}

// load is for how long the workers of a build have been there, and for how long they have been held up.
type load struct {
	// capacity are the seconds of workers, yielded those in which they have yielded to the foreground, and limited those
	// in which they have waited for a write limit.
	capacity, yielded, limited float64
	recent                     []loadSample
	seen                       time.Time // up to when capacity is
}

type loadSample struct {
	time              time.Time
	capacity, yielded float64
}

// pass adds the time since the last call, in which there were so many workers, and returns up to when the build has worked.
func (l *load) pass(now time.Time, workers int) (until time.Time) {
	if !l.seen.IsZero() && now.Sub(l.seen) <= longestGap {
		l.capacity += float64(max(1, workers)) * max(0, now.Sub(l.seen).Seconds())
		l.seen = now
	}
	until, l.seen = l.seen, now
	l.recent = append(l.recent, loadSample{now, l.capacity, l.yielded})
	for len(l.recent) > 2 && now.Sub(l.recent[1].time) >= 2*rateWindow {
		l.recent = l.recent[1:]
	}
	return until
}

// work are the seconds in which workers have worked.
func (l *load) work() float64 { return l.capacity - l.yielded - l.limited }

// share is the part of their time that workers have lately, 0 to 1.
func (l *load) share() float64 {
	if len(l.recent) == 0 {
		return 1
	}
	first, last := l.recent[0], l.recent[len(l.recent)-1]
	if capacity := last.capacity - first.capacity; last.time.Sub(first.time) >= leastYields && capacity > 0 {
		return min(1, max(leastShare, 1-(l.yielded-first.yielded)/capacity))
	}
	return 1
}

// leastShare is the least share of their time that is believed to be left to workers.
const leastShare = 0.05

const (
	// leastMeasured is the least time of a stage that says what it costs, and leastWork the least part of its time in which one
	// worker must have worked: others have waited for a limit.
	leastMeasured, leastWork = 1.0, 0.3
)

// PriorOf returns what builds have cost that have ended: the median of what their stages say.
func PriorOf(builds [][]StageTime) Prior {
	var byteOfMerge, rowOfVerify, rowOfCompare []float64
	for _, stages := range builds {
		bytesPerRow := 0.0
		for _, s := range stages {
			if s.Stage == StageScan && s.Rows > 0 {
				bytesPerRow = float64(s.Bytes) / float64(s.Rows)
			}
		}
		for _, s := range stages {
			if s.Seconds < leastMeasured || s.WorkSeconds < leastWork*s.Seconds || s.Rows <= 0 {
				continue
			}
			cost := s.WorkSeconds / float64(s.Rows)
			switch {
			case s.Stage == StageMerge && bytesPerRow > 0:
				byteOfMerge = append(byteOfMerge, cost/bytesPerRow)
			case s.Stage == StageVerify:
				rowOfVerify = append(rowOfVerify, cost)
			case s.Stage == StageCompare:
				rowOfCompare = append(rowOfCompare, cost)
			}
		}
	}
	return Prior{MergeByte: median(byteOfMerge), VerifyRow: median(rowOfVerify), CompareRow: median(rowOfCompare)}
}

// median is 0 of no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
