package distribution

import (
	"errors"

	"github.com/pingcap/tidb/pkg/util/codec"
)

// Flags that an encoded column begins with (peek in pkg/util/codec/codec.go).
const (
	nullFlag  = codec.NilFlag
	bytesFlag = 1
	intFlag   = 3
	uintFlag  = 4
	floatFlag = 5

	numberLen = 9 // with the flag
	groupLen  = 9 // of bytes: eight and a marker, which is fullGroup but in the last one
	fullGroup = 0xff
)

var errShort = errors.New("distribution: a key ends within its columns")

// valueLength returns the length of the first columns of a key.
func valueLength(key []byte, columns int) (n int, err error) {
	for range columns {
		if n >= len(key) {
			return 0, errShort
		}
		switch key[n] {
		case intFlag, uintFlag, floatFlag:
			n += numberLen
		case nullFlag:
			n++
		case bytesFlag:
			for n++; ; n += groupLen {
				if n+groupLen > len(key) {
					return 0, errShort
				}
				if key[n+groupLen-1] != fullGroup {
					break
				}
			}
			n += groupLen
		default:
			column, _, err := codec.CutOne(key[n:])
			if err != nil {
				return 0, err
			}
			n += len(column)
		}
	}
	if n > len(key) {
		return 0, errShort
	}
	return n, nil
}
