package idle

import (
	"fmt"
	"time"
)

const (
	// LeastShare is the part of one processor that a process gets at least while it wants more, as far as the kernel
	// lets it be raised.
	LeastShare = 0.10
	// KeeperInterval is the time between two observations.
	KeeperInterval = 500 * time.Millisecond

	// keptShare is what a level aims at. Between LeastShare and it nothing changes.
	keptShare = 1.3 * LeastShare
	// wantedShare: a process that runs or waits for less than this part of the time has what it wants, at any level.
	wantedShare = 2 * LeastShare
	// firstWindow is how long a process starves before it is raised, and how long it must have had more than enough to be
	// lowered. nextWindow is how long it starves until the next step.
	firstWindow, nextWindow = 2 * time.Second, time.Second
	// maxStep is the number of levels, upwards a factor of two each, that are taken at a time.
	maxStep = 3
	// maxLevel is the highest level of every knob: the weight of ten to twenty usual threads.
	maxLevel = 11
)

// ShareSample is what a process did in some time.
type ShareSample struct {
	Elapsed time.Duration
	// Run is the time of its threads on processors, Wait their time in wait of one. Both are sums over the threads.
	Run, Wait time.Duration
}

// Ladder decides at which level a process runs, from 0, the lowest, to maxLevel. Its zero value is at level 0, with all levels
// possible.
type Ladder struct {
	level int
	// locked is the number of levels at the top that the kernel refuses. floor is the lowest level.
	locked, floor int
	// window are the samples since the last change, of firstWindow at most; sum is their sum.
	window []ShareSample
	sum    ShareSample
}

// Progress is the state of a process after an observation.
type Progress struct {
	// Share is the part of one processor that the process got. Wanted is that and the part of the time that its threads waited, summed
	// over them. Both are of the last two seconds, or since the last change of the level.
	Share, Wanted float64
	// Level is in force from now on. Top is the highest that the kernel allows.
	Level, Top int
	// Starved says that the process gets less than LeastShare and cannot be raised.
	Starved bool
	// Knob is what the level changes.
	Knob string
}

// String returns the progress as a line for a log.
func (p Progress) String() string {
	text := fmt.Sprintf("%.0f%% of a processor, level %d of %d by the %s", 100*p.Share, p.Level, p.Top, p.Knob)
	if p.Starved {
		text += ", starved"
	}
	return text
}

// Observe takes a sample and decides on the level from now on.
func (l *Ladder) Observe(s ShareSample) Progress {
	l.add(s)
	var p Progress
	if l.sum.Elapsed > 0 {
		p.Share = float64(l.sum.Run) / float64(l.sum.Elapsed)
		p.Wanted = float64(l.sum.Run+l.sum.Wait) / float64(l.sum.Elapsed)
	}
	switch {
	case p.Share < LeastShare && p.Wanted >= wantedShare:
		if l.sum.Elapsed < l.patience() {
			break
		}
		if p.Starved = l.level >= l.top(); !p.Starved {
			l.moveTo(l.raised(p.Share))
		}
	case l.level > l.floor && l.sum.Elapsed >= firstWindow:
		if lower := l.lowered(p.Share, p.Wanted); lower < l.level {
			l.moveTo(lower)
		}
	}
	p.Level, p.Top = l.level, l.top()
	return p
}

// refuse says that the kernel allows no level above top. The level falls to it.
func (l *Ladder) refuse(top int) {
	l.locked = maxLevel - top
	if l.level > top {
		l.moveTo(top)
	}
}

func (l *Ladder) top() int { return maxLevel - l.locked }

func (l *Ladder) add(s ShareSample) {
	l.window = append(l.window, s)
	l.sum = l.sum.plus(s, 1)
	for len(l.window) > 1 && l.sum.Elapsed-l.window[0].Elapsed >= firstWindow {
		l.sum = l.sum.plus(l.window[0], -1)
		l.window = l.window[1:]
	}
}

func (s ShareSample) plus(o ShareSample, sign time.Duration) ShareSample {
	return ShareSample{s.Elapsed + sign*o.Elapsed, s.Run + sign*o.Run, s.Wait + sign*o.Wait}
}

// patience is how long the process must have been starving.
func (l *Ladder) patience() time.Duration {
	if l.level == 0 {
		return firstWindow
	}
	return nextWindow
}

// moveTo changes the level. Samples from before say nothing of it.
func (l *Ladder) moveTo(level int) {
	l.level = level
	l.window, l.sum = nil, ShareSample{}
}

// weightOf returns the weight of a level, in units of that of level 1. Class idle has a fifth to a half; less is assumed, so that
// the process is not lowered to it too early.
func weightOf(level int) float64 {
	if level == 0 {
		return 1.0 / 6
	}
	return float64(int(1) << (level - 1))
}

// raised returns the lowest level that would have given the process what it is to keep, if it got in proportion.
func (l *Ladder) raised(got float64) int {
	highest := min(l.level+maxStep, l.top())
	for level := l.level + 1; level < highest; level++ {
		if got*weightOf(level)/weightOf(l.level) >= keptShare {
			return level
		}
	}
	return highest
}

// lowered returns the lowest level that still keeps the process from starving. With a part of the weight it gets that part of
// its share or more, since the weight of the others stays.
func (l *Ladder) lowered(got, wanted float64) int {
	if wanted < wantedShare {
		return max(l.floor, l.level-maxStep)
	}
	for level := l.floor; level < l.level; level++ {
		if got*weightOf(level)/weightOf(l.level) >= keptShare {
			return level
		}
	}
	return l.level
}
