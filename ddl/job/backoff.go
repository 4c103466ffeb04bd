package job

import (
	"time"

	"fastddl/internal/backoff"
)

const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// Backoff is how long to wait after the n-th failure, n from 1: it doubles from
// 20 ms up to 5 s.
func Backoff(n int64) time.Duration { return backoff.Exponential(n, minBackoff, maxBackoff) }
