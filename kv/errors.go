package kv

import (
	"errors"
	"fmt"
)

var (
	// ErrNotExist is returned by Get when the snapshot holds no value for a key.
	ErrNotExist = errors.New("kv: key does not exist")
	// ErrEmptyValue is returned by Set for an empty value: the empty value is
	// reserved for tombstones.
	ErrEmptyValue = errors.New("kv: value must not be empty")
	// ErrTxnDone is returned by operations on a transaction that was committed
	// or rolled back.
	ErrTxnDone = errors.New("kv: transaction has ended")
	// ErrTxnTooLarge is returned when a transaction's buffer exceeds the
	// store's limit.
	ErrTxnTooLarge = errors.New("kv: transaction is too large")
	// ErrSnapshotTooOld is returned for reads at a timestamp below the GC safe
	// point.
	ErrSnapshotTooOld = errors.New("kv: snapshot is older than the GC safe point")
	// ErrResultUndetermined is returned by Commit when the store failed in a way
	// that leaves open whether the transaction is durable. Nobody is shown its
	// writes before that is known.
	ErrResultUndetermined = errors.New("kv: result of the commit is undetermined")
	// ErrClosed is returned by operations on a closed store.
	ErrClosed = errors.New("kv: store is closed")
	// ErrLocked is returned on opening a store that another process holds open.
	ErrLocked = errors.New("kv: store is in use by another process")
	// ErrNotAStore is returned on opening a path that exists but holds
	// something other than a store of this driver.
	ErrNotAStore = errors.New("kv: path does not hold a store")
	// ErrFormat is returned on opening a store that an earlier or a later version
	// wrote in a format that this one does not read.
	ErrFormat = errors.New("kv: store has another format")
	// ErrDamaged is returned on opening a store that has lost files or a part of
	// its log.
	ErrDamaged = errors.New("kv: store is damaged")
	// ErrDiskFull is what a DiskFullError is.
	ErrDiskFull = errors.New("kv: disk is full")
)

// DiskFullError reports that a write was refused because the store's disk is nearly
// full: what is left is for deletions and for the store itself. Nothing of the write
// was applied. It can be repeated when there is space again.
type DiskFullError struct {
	// Free is what the disk had left, in bytes, and Needed what it must have for
	// such a write.
	Free, Needed uint64
}

func (e *DiskFullError) Error() string {
	return fmt.Sprintf("%v: %d MiB are free, writes need %d MiB; deletions go on", ErrDiskFull, e.Free>>20, e.Needed>>20)
}

// Is makes every DiskFullError an ErrDiskFull.
func (e *DiskFullError) Is(target error) bool { return target == ErrDiskFull }

// WriteConflictError reports that a transaction could not commit because a key
// it wrote or locked was committed by another one after its start timestamp.
// Nothing of the failed transaction was applied; it can be retried from its
// beginning with a new transaction.
type WriteConflictError struct {
	Key        []byte
	StartTS    uint64
	ConflictTS uint64
}

func (e *WriteConflictError) Error() string {
	return fmt.Sprintf("kv: write conflict: key %x was committed at %d, after the transaction's start at %d",
		e.Key, e.ConflictTS, e.StartTS)
}

// IsWriteConflict reports whether err is, or wraps, a WriteConflictError.
func IsWriteConflict(err error) bool {
	var wc *WriteConflictError
	return errors.As(err, &wc)
}
