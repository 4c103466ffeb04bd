package job

import (
	"fmt"
	"math"
	"time"
)

const (
	// farOff and farOffBy say when the remaining time was wrong by far: it is farOff times what was shown, and farOffBy more.
	farOff   = 1.1
	farOffBy = time.Second
	// follows is how fast the shown time follows a lower estimate, or in the fifth part of it if that is less: estimates of a
	// moment may be wrong.
	follows = 2 * time.Second
	// reasonFor is how long the reason for a longer time is shown.
	reasonFor = 30 * time.Second
	// maxRemaining is the longest time that is worth showing.
	maxRemaining = 365 * 24 * time.Hour
	// drift is how far what is left may be from the percentage's scale before that is made anew.
	drift = 1.2
	// notable is the least part by which something has changed that is given as a reason.
	notable = 1.05
)

// work is what is left to do and done, by part: rows, and the seconds that each takes.
type work struct {
	rows, done, each [partCount]float64
	// known says that all seconds are.
	known bool
	now   facts
}

// seconds is how long rows take.
func (w *work) seconds(rows, each *[partCount]float64) (sum float64) {
	for i := range rows {
		if rows[i] > 0 {
			sum += rows[i] * each[i]
		}
	}
	return sum
}

// facts are what an estimate depends on, beside what was measured.
type facts struct {
	limit   string
	speed   int64
	workers int
	share   float64
	total   int64
	stage   string
	resumed bool
}

// forecast is the percentage and the remaining time that are shown. The zero value is ready to use.
type forecast struct {
	percent float64
	// scale is what percent goes by: from base at what was left then, to 100 at nothing.
	base, baseLeft float64
	scale          [partCount]float64

	// resumed says that some work is done again, which is not in the estimate yet.
	resumed bool

	remaining time.Duration // as of at
	at        time.Time
	known     bool
	by        facts // that remaining was estimated by
	reason    string
	reasonAt  time.Time
}

// update estimates anew.
func (f *forecast) update(now time.Time, w work, end func(time.Time, time.Duration) time.Time) {
	seconds := w.seconds(&w.rows, &w.each)
	if !w.known || !(seconds < maxRemaining.Seconds()) {
		f.known = false
		return
	}
	f.updatePercent(&w, seconds)
	estimate := time.Duration(seconds * float64(time.Second))
	if end != nil {
		estimate = min(end(now, estimate).Sub(now), maxRemaining)
	}
	f.show(now, estimate, w.now)
	f.known = true
}

// updatePercent makes the percentage go on from where it is, in proportion to what is left.
func (f *forecast) updatePercent(w *work, seconds float64) {
	left := w.seconds(&w.rows, &f.scale)
	if f.baseLeft == 0 || f.resumed || left > drift*seconds || left < seconds/drift {
		if done := w.seconds(&w.done, &w.each); f.baseLeft == 0 && f.percent == 0 && done+seconds > 0 {
			f.percent = 100 * done / (done + seconds)
		}
		f.scale, f.base, f.baseLeft = w.each, f.percent, seconds
		return
	}
	f.percent = max(f.percent, f.base+(100-f.base)*(1-left/f.baseLeft))
}

// show shows an estimate, which becomes greater only with a reason.
func (f *forecast) show(now time.Time, estimate time.Duration, by facts) {
	elapsed := max(0, now.Sub(f.at))
	longer := estimate > time.Duration(farOff*float64(f.remaining))+farOffBy
	switch {
	case f.at.IsZero():
		f.remaining = estimate
		if f.resumed {
			f.because(now, "goes on at its last checkpoint after an interruption")
		}
	case longer:
		f.remaining = estimate
		f.because(now, f.by.why(by))
	default:
		expected := max(0, f.remaining-elapsed)
		slow := min(follows, max(f.remaining/5, 100*time.Millisecond))
		part := 1 - math.Exp(-elapsed.Seconds()/slow.Seconds())
		f.remaining = min(f.remaining, expected+time.Duration(part*float64(estimate-expected)))
	}
	if longer || estimate <= f.remaining || f.at.IsZero() {
		f.by = by
	}
	f.at, f.resumed = now, false
}

func (f *forecast) because(now time.Time, reason string) {
	f.reason, f.reasonAt = "takes longer: "+reason, now
}

// why says what has changed since an estimate, in words.
func (f facts) why(now facts) string {
	switch {
	case now.resumed:
		return "goes on at its last checkpoint after an interruption"
	case now.speed > 0 && now.speed != f.speed:
		return fmt.Sprintf("%s allows %d bytes/s", now.limit, now.speed)
	case now.workers > 0 && now.workers < f.workers:
		return fmt.Sprintf("%d workers instead of %d", now.workers, f.workers)
	case now.share*notable < f.share:
		return "yields to foreground statements"
	case float64(now.total) > notable*float64(f.total):
		return "the table has more rows than was estimated"
	}
	return "stage " + now.stage + " is slower than was estimated"
}

// Percent is how much of the job is done, below 100 until it has ended.
func (f *forecast) Percent() float64 { return min(f.percent, 99) }

// Remaining is the estimated time to go; ok is false if there is no estimate yet.
func (f *forecast) Remaining() (remaining time.Duration, ok bool) { return f.remaining, f.known }

// Reason is why the remaining time has become longer lately; empty if it has not.
func (f *forecast) Reason(now time.Time) string {
	if now.Sub(f.reasonAt) >= reasonFor {
		return ""
	}
	return f.reason
}
