package txn

import "slices"

// maxLockRecords and maxRecordBytes bound the memory of lock commits by stripe: about a million keys, and 64 MiB of keys,
// in the whole store.
const (
	maxLockRecords = 256
	maxRecordBytes = 16 << 10
)

// lockRecords remember keys that were committed without being written, and so left no version that a later conflict
// check could find. They are guarded by their stripe.
type lockRecords struct {
	// newest maps keys to the newest commit timestamp that locked them.
	newest map[string]uint64
	bytes  int // of the keys
	// forgotten is the highest timestamp that was dropped: who began before it is taken to conflict.
	forgotten uint64
}

// add remembers that a commit at ts locked key.
func (r *lockRecords) add(key []byte, ts uint64) {
	if r.newest == nil {
		r.newest = make(map[string]uint64)
	}
	for len(r.newest) >= maxLockRecords || len(r.newest) > 0 && r.bytes+len(key) > maxRecordBytes {
		r.dropOlderHalf()
	}
	if _, ok := r.newest[string(key)]; !ok {
		r.bytes += len(key)
	}
	r.newest[string(key)] = max(ts, r.newest[string(key)])
}

func (r *lockRecords) dropOlderHalf() {
	times := make([]uint64, 0, len(r.newest))
	for _, ts := range r.newest {
		times = append(times, ts)
	}
	slices.Sort(times)
	r.forgotten = max(r.forgotten, times[len(times)/2])
	for key, ts := range r.newest {
		if ts <= r.forgotten {
			delete(r.newest, key)
			r.bytes -= len(key)
		}
	}
}

// after returns when key was locked by a commit after ts, or 0.
func (r *lockRecords) after(key []byte, ts uint64) uint64 {
	if newest := r.newest[string(key)]; newest > ts {
		return newest
	}
	if r.forgotten > ts {
		return r.forgotten
	}
	return 0
}
