package sbtest

import "time"

// timetable says when transactions arrive: one in each interval, at a moment
// within it that follows from the seed. Counts over any time are steady, so
// that throughput can be compared over seconds, while arrivals still bunch.
type timetable struct {
	interval time.Duration
	seed     uint64
}

func newTimetable(perSecond float64, seed uint64) timetable {
	return timetable{interval: time.Duration(float64(time.Second) / perSecond), seed: seed}
}

// at is the arrival of the i-th transaction, from 0, since the start.
func (t timetable) at(i int64) time.Duration {
	share := float64(mix(t.seed+uint64(i))>>11) / (1 << 53)
	return time.Duration((float64(i) + share) * float64(t.interval))
}

// due is the number of transactions of which the interval has ended.
func (t timetable) due(elapsed time.Duration) int64 {
	return int64(elapsed / t.interval)
}

// mix is splitmix64: well-distributed bits from any number.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
