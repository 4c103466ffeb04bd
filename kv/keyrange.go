package kv

import (
	"bytes"
	"fmt"
)

// KeyRange is the half-open range of keys [Start, End). A nil End is
// unbounded.
type KeyRange struct {
	Start []byte
	End   []byte
}

// PrefixRange returns the range of all keys with the given prefix.
func PrefixRange(prefix []byte) KeyRange {
	return KeyRange{Start: prefix, End: PrefixNext(prefix)}
}

// PrefixNext returns the smallest key greater than every key with the given
// prefix, or nil when there is none (an empty prefix, or one of only 0xff).
func PrefixNext(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			next := bytes.Clone(prefix[:i+1])
			next[i]++
			return next
		}
	}
	return nil
}

// NextKey returns the immediate successor of key.
func NextKey(key []byte) []byte {
	next := make([]byte, len(key)+1)
	copy(next, key)
	return next
}

// Contains reports whether key lies in the range.
func (r KeyRange) Contains(key []byte) bool {
	return bytes.Compare(key, r.Start) >= 0 && (r.End == nil || bytes.Compare(key, r.End) < 0)
}

// Empty reports whether the range holds no key.
func (r KeyRange) Empty() bool {
	return r.End != nil && bytes.Compare(r.Start, r.End) >= 0
}

// Intersect returns the common part of two ranges; it may be empty.
func (r KeyRange) Intersect(o KeyRange) KeyRange {
	out := r
	if bytes.Compare(o.Start, out.Start) > 0 {
		out.Start = o.Start
	}
	if out.End == nil || (o.End != nil && bytes.Compare(o.End, out.End) < 0) {
		out.End = o.End
	}
	return out
}

func (r KeyRange) String() string { return fmt.Sprintf("[%x, %x)", r.Start, r.End) }
