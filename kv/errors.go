package kv

import (
	"errors"
	"fmt"
)

var (
	// ErrNotExist is returned by Get when the snapshot holds no value for a key.
	ErrNotExist = errors.New("kv: key does not exist")
	// ErrEmptyValue is returned for an import of an empty value: the empty value is
	// reserved for tombstones.
	ErrEmptyValue = errors.New("kv: value must not be empty")

	// ErrSameKey is returned for an import of two pairs with one key.
	ErrSameKey = errors.New("kv: two pairs have one key")
	// ErrSnapshotTooOld is returned for reads at a timestamp below the GC safe
	// point.
	ErrSnapshotTooOld = errors.New("kv: snapshot is older than the GC safe point")
	// ErrResultUndetermined is returned for a commit when the store failed in a way
	// that leaves open whether it is durable. No reader sees its writes before that
	// is known.
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
	// ErrStoreFailed says that a store takes no writes any more until it is opened again:
	// the contents of its log are unknown.
	ErrStoreFailed = errors.New("store has failed")
	// ErrDiskFull is what a DiskFullError is.
	ErrDiskFull = errors.New("kv: disk is full")
	// ErrTxnTooLarge is what a TxnTooLargeError is.
	ErrTxnTooLarge = errors.New("kv: transaction is too large")
	// ErrTooManyLocks is what a TooManyLocksError is.
	ErrTooManyLocks = errors.New("kv: too many locks")
)

// DiskFullError reports that a write was refused because the store's disk is nearly
// full: what is left is for deletions and for the store itself. Nothing of the write
// was applied. It can be repeated when there is space again.
type DiskFullError struct {
	// Free is what the disk had left, in bytes, and Needed what it must have for
	// such a write.
	Free, Needed uint64
	// Stuck says that deletions are refused too: what was reserved for them is used up, or
	// the store waits for space itself.
	Stuck bool
}

func (e *DiskFullError) Error() string {
	if e.Stuck {
		return fmt.Sprintf("%v: %d MiB are free; deletions have to wait, too", ErrDiskFull, e.Free>>20)
	}
	return fmt.Sprintf("%v: %d MiB are free, writes need %d MiB; deletions go on", ErrDiskFull, e.Free>>20, e.Needed>>20)
}

// Is makes every DiskFullError an ErrDiskFull.
func (e *DiskFullError) Is(target error) bool { return target == ErrDiskFull }

// TxnTooLargeError reports that a transaction writes more than the store takes in one. Nothing of it was applied.
type TxnTooLargeError struct {
	// Size is what the keys and values need, in bytes, as far as they are known; Limit is the most that it may be.
	Size, Limit int
}

func (e *TxnTooLargeError) Error() string {
	return fmt.Sprintf("%v: it has %d bytes or more, the limit is %d", ErrTxnTooLarge, e.Size, e.Limit)
}

// Is makes every TxnTooLargeError an ErrTxnTooLarge.
func (e *TxnTooLargeError) Is(target error) bool { return target == ErrTxnTooLarge }

// TooManyLocksError reports that a transaction was refused locks, because all locks together would hold more memory than
// they may. It has those that it had before.
type TooManyLocksError struct {
	// Limit is what they may hold, in bytes.
	Limit int64
}

func (e *TooManyLocksError) Error() string {
	return fmt.Sprintf("%v: those of all transactions may hold %d MiB of memory", ErrTooManyLocks, e.Limit>>20)
}

// Is makes every TooManyLocksError an ErrTooManyLocks.
func (e *TooManyLocksError) Is(target error) bool { return target == ErrTooManyLocks }

// DamagedUnitError reports that a file of an import is not the unit that its writer has finished, or that the store has
// taken in something else. The file stays as it is: importing it again fails again, only a new one helps.
type DamagedUnitError struct {
	// File is the path of the file.
	File string
	// Imported says that the store had taken the units in before the difference showed: it may hold entries that belong
	// to no unit. If not, nothing of any unit was imported.
	Imported bool
	// Err is what differs.
	Err error
}

func (e *DamagedUnitError) Error() string {
	if e.Imported {
		return fmt.Sprintf("kv: the store has not taken in import file %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("kv: import file %s is damaged, nothing was imported: %v", e.File, e.Err)
}

// Unwrap returns what differs.
func (e *DamagedUnitError) Unwrap() error { return e.Err }

// ScanCountError reports that a scan has returned another number of rows than the store has read: rows were lost, or
// repeated, between the store's reader and the caller.
type ScanCountError struct {
	// Range is the part of the table that was read.
	Range KeyRange
	// Rows is how many rows were decoded, Visited how many records the store's own reading has met there.
	Rows, Visited int64
}

func (e *ScanCountError) Error() string {
	return fmt.Sprintf("kv: the store has read %d records of %s, but returned %d rows", e.Visited, e.Range, e.Rows)
}

// ImportAccountError reports that what a store has taken of an import is not what was added to its units. Importing the same
// pairs again repairs what is missing.
type ImportAccountError struct {
	// Range is that of the unit, or of a part of it.
	Range   KeyRange
	Problem string
}

func (e *ImportAccountError) Error() string {
	return fmt.Sprintf("kv: import of %s: %s", e.Range, e.Problem)
}
