package ddl

import (
	"slices"
	"time"

	"fastddl/kv"
)

// reclaimQueue decides what dropped data is deleted next: a piece of each range
// in turn, so that a huge range does not hold up small ones behind it.
type reclaimQueue struct {
	items []*reclaimItem
	bytes uint64 // size of all of them
}

// reclaimItem is a range with what is left of it, in pieces that are deleted at a
// time. There is at least one.
type reclaimItem struct {
	deleteRange
	pieces []kv.SizedRange
}

func (it *reclaimItem) bytes() (sum uint64) {
	for _, p := range it.pieces {
		sum += p.Bytes
	}
	return sum
}

// forget drops the items whose ranges are not among those given, and returns the
// ranges that are new.
func (q *reclaimQueue) forget(ranges []deleteRange) (fresh []deleteRange) {
	left := make(map[int64]deleteRange, len(ranges))
	for _, r := range ranges {
		left[r.ID] = r
	}
	q.items = slices.DeleteFunc(q.items, func(it *reclaimItem) bool {
		_, ok := left[it.ID]
		delete(left, it.ID)
		if !ok {
			q.bytes -= it.bytes()
		}
		return !ok
	})
	for _, r := range ranges {
		if _, ok := left[r.ID]; ok {
			fresh = append(fresh, r)
		}
	}
	return fresh
}

func (q *reclaimQueue) add(it *reclaimItem) {
	q.items = append(q.items, it)
	q.bytes += it.bytes()
}

// next returns the item whose turn it is among those that may be deleted, nil if
// there is none.
func (q *reclaimQueue) next(safePoint uint64) *reclaimItem {
	i := slices.IndexFunc(q.items, func(it *reclaimItem) bool { return it.TS < safePoint })
	if i < 0 {
		return nil
	}
	return q.items[i]
}

// deleted takes the first piece of it away and puts it behind all others, or
// drops it if that was the last piece.
func (q *reclaimQueue) deleted(it *reclaimItem) {
	q.items = slices.DeleteFunc(q.items, func(x *reclaimItem) bool { return x == it })
	q.bytes -= it.pieces[0].Bytes
	if it.pieces = it.pieces[1:]; len(it.pieces) > 0 {
		q.items = append(q.items, it)
	}
}

// pace keeps deletions at a speed that may change at any time: what is deleted is
// a debt that is paid off as time passes, and nothing is deleted while there is
// one.
type pace struct {
	debt  float64   // bytes, as of at
	speed int64     // bytes per second since at; 0 is no limit
	at    time.Time // when wait was asked last
}

// maxPause is the longest that wait returns; who waits asks again.
const maxPause = time.Hour

// wait is how long nothing may be deleted if the speed is as given from now on.
func (p *pace) wait(now time.Time, speed int64) time.Duration {
	if p.speed == 0 {
		p.debt = 0
	}
	p.debt = max(0, p.debt-float64(p.speed)*now.Sub(p.at).Seconds())
	p.speed, p.at = speed, now
	if speed == 0 || p.debt == 0 {
		return 0
	}
	return time.Duration(min(p.debt/float64(speed), maxPause.Seconds()) * float64(time.Second))
}

// spend says that n bytes were deleted.
func (p *pace) spend(n uint64) { p.debt += float64(n) }
