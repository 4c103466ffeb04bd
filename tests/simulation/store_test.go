package simulation

// timestamp is the time of the store's only clock, from 1.
type timestamp int32

// key is a row or an entry of an index. See keys_test.go.
type key int16

// version is one version of a key.
type version struct {
	ts timestamp
	// value is 0 in a tombstone.
	value int16
	// lock marks a LOCK record, which says nothing of the value. hides makes readers stop
	// at it: the key did not exist when it was locked, and the record says so.
	lock, hides bool
}

// hold keeps garbage collection from passing ts until it expires.
type hold struct {
	name    int
	ts      timestamp
	expires int
}

// deleteRange is an index whose entries are to be removed when the safe point passes ts.
type deleteRange struct {
	index int
	ts    timestamp
	done  bool
}

// store is an MVCC store that behaves as TiKV and kv/embedded do.
type store struct {
	clock    timestamp
	versions [maxKeys][]version
	// locks are the transactions that have keys locked or prewritten.
	locks [maxKeys]*txn
	// late are LOCK records of transactions that have committed, and that are still locks: no
	// reader sees those, so they stay until a transaction ends them.
	late      [maxKeys]version
	safePoint timestamp
	holds     []hold
	ranges    []deleteRange
	// ticks is the time by which holds expire.
	ticks int
}

func (s *store) reset() {
	for i := range s.versions {
		s.versions[i] = s.versions[i][:0]
	}
	clear(s.locks[:])
	clear(s.late[:])
	s.clock, s.safePoint, s.ticks = 0, 0, 0
	s.holds, s.ranges = s.holds[:0], s.ranges[:0]
}

// now takes a timestamp.
func (s *store) now() timestamp {
	s.clock++
	return s.clock
}

// get returns the value of a key at a snapshot, 0 if it has none.
func (s *store) get(k key, at timestamp) int16 {
	list := s.versions[k]
	for i := len(list) - 1; i >= 0; i-- {
		v := &list[i]
		switch {
		case v.ts > at:
		case !v.lock:
			return v.value
		case v.hides:
			return 0
		}
	}
	return 0
}

// shadowed says that a key has a value at a snapshot, but for a LOCK record that hides it.
func (s *store) shadowed(k key, at timestamp) bool {
	newest := int16(0)
	for _, v := range s.versions[k] {
		if v.ts <= at && !v.lock {
			newest = v.value
		}
	}
	return newest != 0 && s.get(k, at) == 0
}

// exactly returns the value of a key's version at a timestamp, 0 if there is none.
func (s *store) exactly(k key, at timestamp) int16 {
	for _, v := range s.versions[k] {
		if v.ts == at && !v.lock {
			return v.value
		}
	}
	return 0
}

// newest returns the timestamp of a key's newest version, LOCK records included.
func (s *store) newest(k key) timestamp {
	if list := s.versions[k]; len(list) > 0 {
		return list[len(list)-1].ts
	}
	return 0
}

// changed says that a key from from to before to has a version in (after, upTo]. A LOCK
// record changes nothing, unless it hides what is there.
func (s *store) changed(from, to key, after, upTo timestamp) bool {
	for k := from; k < to; k++ {
		for _, v := range s.versions[k] {
			if after < v.ts && v.ts <= upTo && (!v.lock || v.hides) {
				return true
			}
		}
	}
	return false
}

// put adds a version, in place of one with the same timestamp.
func (s *store) put(k key, v version) {
	list := s.versions[k]
	i := len(list)
	for i > 0 && list[i-1].ts > v.ts {
		i--
	}
	if i > 0 && list[i-1].ts == v.ts {
		list[i-1] = v
		return
	}
	list = append(list, version{})
	copy(list[i+1:], list[i:])
	list[i] = v
	s.versions[k] = list
}

// settle makes a LOCK record of a lock that was left.
func (s *store) settle(k key) {
	if v := s.late[k]; v.lock {
		s.put(k, v)
		s.late[k] = version{}
	}
}

// settleUpTo does that to all of transactions that committed at or below a timestamp.
func (s *store) settleUpTo(at timestamp) {
	for k := range s.late {
		if s.late[k].ts <= at {
			s.settle(key(k))
		}
	}
}

// holdAt takes the hold of a name in place of the one it had. It fails below the safe
// point.
func (s *store) holdAt(name int, ts timestamp, ttl int) bool {
	if ts < s.safePoint {
		return false
	}
	s.release(name)
	s.holds = append(s.holds, hold{name: name, ts: ts, expires: s.ticks + ttl})
	return true
}

// renew lengthens a hold. replaced says that the name has another one by now.
func (s *store) renew(name int, ts timestamp, ttl int) (ok, replaced bool) {
	for i := range s.holds {
		if s.holds[i].name == name && s.holds[i].ts != ts {
			return false, true
		}
	}
	return s.holdAt(name, ts, ttl), false
}

func (s *store) release(name int) {
	for i := range s.holds {
		if s.holds[i].name == name {
			s.holds = append(s.holds[:i], s.holds[i+1:]...)
			return
		}
	}
}

// held returns the newest timestamp up to target that holds allow as safe point, and
// forgets those that have expired.
func (s *store) held(target timestamp) timestamp {
	live := s.holds[:0]
	for _, h := range s.holds {
		if h.expires > s.ticks {
			live = append(live, h)
			target = min(target, h.ts)
		}
	}
	s.holds = live
	return target
}

// collect removes what no snapshot from the safe point on sees.
func (s *store) collect(w *world) {
	s.settleUpTo(s.safePoint) // TiDB ends all older locks first
	for k := range s.versions {
		s.collectKey(w, key(k))
	}
	for i := range s.ranges {
		r := &s.ranges[i]
		if r.done || r.ts >= s.safePoint {
			continue
		}
		r.done = true
		from, to := indexKeys(r.index)
		for k := from; k < to; k++ {
			s.versions[k] = s.versions[k][:0]
		}
	}
}

func (s *store) collectKey(w *world, k key) {
	list := s.versions[k]
	if len(list) == 0 || len(list) == 1 && list[0].value != 0 {
		return
	}
	kept := list[:0]
	base := -1 // the version that a snapshot at the safe point sees
	for i, v := range list {
		if v.ts <= s.safePoint && !v.lock {
			base = i
		}
	}
	for i, v := range list {
		switch {
		case v.ts > s.safePoint:
			if w.broken(tombstonesCollected) && v.value == 0 && !v.lock {
				continue
			}
			kept = append(kept, v)
		case i == base && v.value != 0:
			kept = append(kept, v)
		}
	}
	s.versions[k] = kept
}
