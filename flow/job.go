package flow

import "time"

// ReportInterval is how often waiting is reported.
const ReportInterval = time.Second

// JobOptions are a job's callbacks; nil ones are not called.
type JobOptions struct {
	// Yielded is called once in ReportInterval while the job's workers have waited for the
	// foreground, and at its end: with how long, and with the last reason.
	Yielded func(reason Reason, waited time.Duration)
	// SampleFailed is called with the panic of a sampler, the first time in a row.
	SampleFailed func(err error)
}

// Job is one index build as flow control sees it. All methods may be called concurrently.
type Job struct {
	governor *Governor
	opts     JobOptions
	stats    yieldStats
	end      func()
}

// NewJob returns a job, which is governed from Begin to End.
func (g *Governor) NewJob(opts JobOptions) *Job {
	if opts.Yielded == nil {
		opts.Yielded = func(Reason, time.Duration) {}
	}
	if opts.SampleFailed == nil {
		opts.SampleFailed = func(error) {}
	}
	return &Job{governor: g, opts: opts, stats: yieldStats{onReport: opts.Yielded}, end: func() {}}
}

// Begin takes a decision before it returns, if no other job runs.
func (j *Job) Begin() { j.end = j.governor.begin(j.opts.SampleFailed) }

// End ends what Begin has begun, if it was called, and reports the rest of the waiting. It may
// be called again, but neither beside Begin nor before it.
func (j *Job) End() {
	j.end()
	j.stats.report()
}

// YieldsTo returns why a job of so many workers yields to the foreground at the moment; empty if it
// does not, or for less than reportThreshold of its time.
func (j *Job) YieldsTo(workers int) Reason {
	if d := j.governor.Decision(); d.Share < 1-reportThreshold {
		return d.Reason
	}
	if float64(j.stats.yieldedFor()) >= reportThreshold*float64(yieldWindow)*float64(workers) {
		return Statements
	}
	return ""
}
