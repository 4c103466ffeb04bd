// Package backoff computes the pauses between attempts, the same way for all that retry;
// each has its own first pause and limit.
package backoff

import "time"

// maxDoublings bounds the shift: each limit in use is reached before.
const maxDoublings = 10

// Exponential returns the pause after the n-th failure, n from 1: it doubles from first up to
// limit, which is at most first times 1024.
func Exponential[N int | int64](n N, first, limit time.Duration) time.Duration {
	return min(limit, first<<min(max(n-1, 0), maxDoublings))
}
