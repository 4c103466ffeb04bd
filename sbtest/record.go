package sbtest

import (
	"errors"
	"slices"
	"time"

	"fastddl/internal/stats"
)

// Outcome is how a transaction ended.
type Outcome uint8

// Outcomes.
const (
	Committed  Outcome = iota
	Failed             // by an error that does not ask to try again
	Unfinished         // cut off when the load was stopped
)

// Sample is one transaction. Times are since the start of the load.
type Sample struct {
	Arrived, Ended time.Duration
	Outcome        Outcome
	// Retries is how often it was run again after a conflict.
	Retries int
}

// Interval is a stretch of the load, from its start.
type Interval struct {
	From, To time.Duration
}

func (i Interval) holds(t time.Duration) bool { return i.From <= t && t < i.To }

// Record is what a load did.
type Record struct {
	samples []Sample
	errs    []error
}

// Err joins some of the errors by which transactions failed; nil without any.
func (r *Record) Err() error { return errors.Join(r.errs...) }

// LatencySummary is what clients saw of the system in some time.
type LatencySummary struct {
	Seconds float64 `json:"seconds"`
	// Completed counts transactions that committed in that time.
	Completed int     `json:"completed"`
	PerSecond float64 `json:"per_second"`
	// Arrived counts transactions that arrived in that time. The latencies are of
	// those, from arrival to the end of the commit, however late that was. They
	// are in milliseconds.
	Arrived int     `json:"arrived"`
	Mean    float64 `json:"mean_ms"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	// Of the transactions that arrived in that time: how often one was run again
	// after a conflict, how many failed, how many never ended.
	Retries    int `json:"retries"`
	Failed     int `json:"failed"`
	Unfinished int `json:"unfinished"`
}

// Summary sums up the given intervals, which must not overlap, as if they were one.
func (r *Record) Summary(intervals ...Interval) LatencySummary {
	var (
		f         LatencySummary
		latencies []time.Duration
	)
	for _, i := range intervals {
		f.Seconds += (i.To - i.From).Seconds()
		for _, s := range r.samples {
			if s.Outcome == Committed && i.holds(s.Ended) {
				f.Completed++
			}
			if !i.holds(s.Arrived) {
				continue
			}
			latencies = append(latencies, s.Ended-s.Arrived)
			f.Retries += s.Retries
			switch s.Outcome {
			case Failed:
				f.Failed++
			case Unfinished:
				f.Unfinished++
			}
		}
	}
	slices.Sort(latencies)
	f.Arrived = len(latencies)
	var sum time.Duration
	for _, l := range latencies {
		sum += l
	}
	f.Mean = stats.Ratio(milliseconds(sum), float64(f.Arrived))
	f.PerSecond = stats.Ratio(float64(f.Completed), f.Seconds)
	f.P50 = milliseconds(stats.Quantile(latencies, 0.5))
	f.P99 = milliseconds(stats.Quantile(latencies, 0.99))
	f.Max = milliseconds(stats.Quantile(latencies, 1))
	return f
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Timeline is the number of transactions that committed in each bucket of the
// given length; one that the end cuts off is left out.
func (r *Record) Timeline(bucket, end time.Duration) []int {
	counts := make([]int, end/bucket)
	for _, s := range r.samples {
		if i := int(s.Ended / bucket); s.Outcome == Committed && i < len(counts) {
			counts[i]++
		}
	}
	return counts
}
