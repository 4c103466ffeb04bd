package pebblekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"

	"fastddl/kv"
)

// Engine keys are cockroachkvs keys: the user's key, a zero byte, and for a
// version its timestamp (8 bytes, big endian) and the suffix length. Versions
// of one key sort newest first, after the bare key. This file is the only one
// that builds engine keys or takes them apart.
const (
	// tsSuffixLen is the length of the timestamp suffix with its length byte.
	tsSuffixLen = 8 + 1
	// versionOverhead is what a version's engine key is longer than its user key.
	versionOverhead = 1 + tsSuffixLen
	// reservedByte starts the keys of the store's own records, which lie after
	// all user keys.
	reservedByte = 0xff
)

// errReservedKey is returned for writes to the store's own part of the key
// space.
var errReservedKey = errors.New("pebblekv: keys that begin with 0xff are reserved")

func reserved(key []byte) bool { return len(key) > 0 && key[0] == reservedByte }

// checkUserKey refuses keys in the store's own part of the key space.
func checkUserKey(key []byte) error {
	if reserved(key) {
		return fmt.Errorf("%w: %x", errReservedKey, key)
	}
	return nil
}

// appendBare appends the engine key that sorts before every version of key.
func appendBare(dst, key []byte) []byte {
	return append(append(dst, key...), 0)
}

// appendVersion appends the engine key of key's version at ts. At 0 that is a key behind all versions, where
// cockroachkvs.AppendTimestamp appends the bare key before them.
func appendVersion(dst, key []byte, ts uint64) []byte {
	return append(binary.BigEndian.AppendUint64(appendBare(dst, key), ts), tsSuffixLen)
}

// putVersion encodes what appendVersion does into dst, which has exactly the
// length of the engine key.
func putVersion(dst, key []byte, ts uint64) {
	n := copy(dst, key)
	dst[n] = 0
	binary.BigEndian.PutUint64(dst[n+1:], ts)
	dst[n+tsSuffixLen] = tsSuffixLen
}

// splitVersion takes the engine key of a version apart. The user key aliases
// engineKey.
func splitVersion(engineKey []byte) (key []byte, ts uint64, err error) {
	n := len(engineKey) - versionOverhead
	if n < 0 || engineKey[n] != 0 || engineKey[len(engineKey)-1] != tsSuffixLen {
		return nil, 0, fmt.Errorf("pebblekv: engine key %x is not a version", engineKey)
	}
	return engineKey[:n], binary.BigEndian.Uint64(engineKey[n+1:]), nil
}

// userKey returns the user key of any engine key, with or without a version.
func userKey(engineKey []byte) []byte {
	n := cockroachkvs.Split(engineKey)
	if n == 0 {
		return nil
	}
	return engineKey[:n-1]
}

// sameUserKey says whether a version's engine key belongs to the key whose bare
// engine key is given.
func sameUserKey(engineKey, bare []byte) bool {
	return len(engineKey) == len(bare)+tsSuffixLen && bytes.HasPrefix(engineKey, bare)
}

// engineBounds are the bounds of r's versions, confined to the user key space. Unless r is empty lower is not above upper,
// and the same where r lies behind all user keys.
func engineBounds(r kv.KeyRange) (lower, upper []byte) {
	end := []byte{reservedByte, 0}
	lower = end
	if !reserved(r.Start) {
		lower = appendBare(make([]byte, 0, len(r.Start)+1), r.Start)
	}
	if r.End == nil || reserved(r.End) {
		return lower, end
	}
	return lower, appendBare(make([]byte, 0, len(r.End)+1), r.End)
}

// recordKey is the engine key of one of the store's own records, which have
// no versions.
func recordKey(name string) []byte {
	k := make([]byte, 0, len(name)+2)
	k = append(k, reservedByte)
	k = append(k, name...)
	return append(k, 0)
}

// recordSpan is where the store's own records lie.
func recordSpan() pebble.KeyRange {
	return pebble.KeyRange{Start: []byte{reservedByte, 0}, End: []byte{reservedByte, 0xff, 0}}
}

// recordName is the inverse of recordKey.
func recordName(engineKey []byte) string {
	return string(engineKey[1 : len(engineKey)-1])
}
