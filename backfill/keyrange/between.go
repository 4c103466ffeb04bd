package keyrange

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"fastddl/kv"
)

// interpolate returns at most n-1 ascending keys strictly inside r that divide
// it evenly, if keys are taken as numbers. For integer handles they are. No key
// is longer than both bounds.
func interpolate(r kv.KeyRange, n int) [][]byte {
	var cuts [][]byte
	last := r.Start
	for i := 1; i < n; i++ {
		if key, ok := between(r, uint64(i), uint64(n)); ok && bytes.Compare(key, last) > 0 {
			cuts = append(cuts, key)
			last = key
		}
	}
	return cuts
}

// between returns the key that lies i n-ths into r, as interpolate says, for 0 < i < n; ok
// is false if there is none strictly inside.
func between(r kv.KeyRange, i, n uint64) (key []byte, ok bool) {
	if r.End == nil {
		return nil, false
	}
	common := CommonPrefix(r.Start, r.End)
	lo, hi := number(r.Start[common:]), number(r.End[common:])
	if hi <= lo {
		return nil, false
	}
	key = append(bytes.Clone(r.Start[:common]), make([]byte, 8)...)
	binary.BigEndian.PutUint64(key[common:], lo+fraction(hi-lo, i, n))
	key = key[:min(len(key), max(len(r.Start), len(r.End)))]
	return key, bytes.Compare(key, r.Start) > 0 && bytes.Compare(key, r.End) < 0
}

// Position returns how far key lies in r, between 0 and 1.
func Position(r kv.KeyRange, key []byte) float64 {
	if r.End == nil || bytes.Compare(key, r.Start) <= 0 {
		return 0
	}
	if bytes.Compare(key, r.End) >= 0 {
		return 1
	}
	common := CommonPrefix(r.Start, r.End)
	lo, hi, at := number(r.Start[common:]), number(r.End[common:]), number(key[common:])
	if hi <= lo || at <= lo {
		return 0
	}
	return min(1, float64(at-lo)/float64(hi-lo))
}

// number is the first eight bytes of b as a number, padded with zeros.
func number(b []byte) uint64 {
	var p [8]byte
	copy(p[:], b)
	return binary.BigEndian.Uint64(p[:])
}

// fraction returns x*i/n without overflow, for i < n.
func fraction(x, i, n uint64) uint64 {
	hi, lo := bits.Mul64(x, i)
	q, _ := bits.Div64(hi, lo, n)
	return q
}

// CommonPrefix returns how many leading bytes two keys share.
func CommonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
