package cop

import (
	"context"
	"fmt"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// Reader is one snapshot of the keys of a request. It is used by one goroutine at a time.
type Reader interface {
	// Get returns the newest value of the key at or below the snapshot, nil if there is none. The slice is valid until the
	// next call.
	Get(ctx context.Context, key []byte) ([]byte, error)
	// Scan calls fn for each live pair in [start, end), from the last to the first if desc, until fn returns false or an
	// error, which Scan returns. The slices are valid only during the call. What Scan holds it must also give back if fn panics.
	Scan(ctx context.Context, start, end []byte, desc bool, fn func(key, value []byte) (more bool, err error)) error
}

// LockedError is what a Reader returns, possibly wrapped, when it meets a lock that the snapshot may not ignore.
// The client resolves the lock and asks again.
type LockedError struct {
	Info *kvrpcpb.LockInfo
}

// Error implements error.
func (e *LockedError) Error() string {
	return fmt.Sprintf("key %x is locked by the transaction of %d", e.Info.GetKey(), e.Info.GetLockVersion())
}
