package cop

import "hash/maphash"

// groupIndex numbers keys from 0 in the order in which they appear. They lie one behind the other in one buffer, so that
// a new key costs no allocation of its own. The zero value is empty.
type groupIndex struct {
	newest map[uint64]int // the newest key with a hash
	older  []int          // by key: the next older one with the same hash, -1 for none
	ends   []int          // by key: where it ends in keys
	keys   []byte
}

// groupSeed is for all indexes: a pool keeps them for longer than a request lasts.
var groupSeed = maphash.MakeSeed()

// find returns the number of key, which is the next one if the key is new.
func (x *groupIndex) find(key []byte) (n int, isNew bool) {
	return x.findHashed(maphash.Bytes(groupSeed, key), key)
}

func (x *groupIndex) findHashed(hash uint64, key []byte) (n int, isNew bool) {
	head, ok := x.newest[hash]
	if !ok {
		head = -1
	}
	for n = head; n >= 0; n = x.older[n] {
		if string(x.key(n)) == string(key) {
			return n, false
		}
	}
	if x.newest == nil {
		x.newest = make(map[uint64]int)
	}
	n = len(x.ends)
	x.newest[hash] = n
	x.older = append(x.older, head)
	x.keys = append(x.keys, key...)
	x.ends = append(x.ends, len(x.keys))
	return n, true
}

func (x *groupIndex) key(n int) []byte {
	start := 0
	if n > 0 {
		start = x.ends[n-1]
	}
	return x.keys[start:x.ends[n]]
}

// reset forgets all keys, not the memory that they had.
func (x *groupIndex) reset() {
	clear(x.newest)
	x.older, x.ends, x.keys = x.older[:0], x.ends[:0], x.keys[:0]
}
