package txn

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// The errors of requests, as TiKV words them: clients act on the field that is set.

func lockedError(l *lock) *kvrpcpb.KeyError { return &kvrpcpb.KeyError{Locked: l.info()} }

func abortError(format string, args ...any) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{Abort: fmt.Sprintf(format, args...)}
}

func retryableError(format string, args ...any) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{Retryable: fmt.Sprintf(format, args...)}
}

// errLatched says that a key is at work for longer than a request waits.
var errLatched = errors.New("txn: the latch of a key is held")

// serverIsBusy makes the client retry after a pause, in which it looks whether its statement was killed.
func serverIsBusy() *errorpb.Error {
	const reason = "another request for one of the keys waits for the disk"
	return &errorpb.Error{Message: reason, ServerIsBusy: &errorpb.ServerIsBusy{Reason: reason}}
}

// conflict reports a version, or a lock, that was committed at conflictTS. Versions do not record when their transactions
// began, so both timestamps are the commit's.
func conflict(reason kvrpcpb.WriteConflict_Reason, startTS, conflictTS uint64, key, primary []byte) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{Conflict: &kvrpcpb.WriteConflict{
		StartTs:          startTS,
		ConflictTs:       conflictTS,
		ConflictCommitTs: conflictTS,
		Key:              bytes.Clone(key),
		Primary:          bytes.Clone(primary),
		Reason:           reason,
	}}
}

func alreadyExists(key []byte) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{AlreadyExist: &kvrpcpb.AlreadyExist{Key: bytes.Clone(key)}}
}

func pessimisticLockNotFound(startTS uint64, key []byte, why string) *kvrpcpb.KeyError {
	return retryableError("PessimisticLockNotFound { start_ts: %d, key: %x, reason: %s }", startTS, key, why)
}

func pessimisticLockRolledBack(startTS uint64, key []byte) *kvrpcpb.KeyError {
	return abortError("PessimisticLockRolledBack { start_ts: %d, key: %x }", startTS, key)
}

func txnLockNotFound(startTS, commitTS uint64, key []byte) *kvrpcpb.KeyError {
	return retryableError("TxnLockNotFound { start_ts: %d, commit_ts: %d, key: %x }", startTS, commitTS, key)
}

func txnNotFound(startTS uint64, primary []byte) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{TxnNotFound: &kvrpcpb.TxnNotFound{StartTs: startTS, PrimaryKey: bytes.Clone(primary)}}
}

func lockTypeNotMatch(startTS uint64, key []byte, pessimistic bool) *kvrpcpb.KeyError {
	return abortError("LockTypeNotMatch { start_ts: %d, key: %x, pessimistic: %t }", startTS, key, pessimistic)
}

func assertionFailed(startTS uint64, m *kvrpcpb.Mutation, existingTS uint64) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{AssertionFailed: &kvrpcpb.AssertionFailed{
		StartTs:          startTS,
		Key:              bytes.Clone(m.Key),
		Assertion:        m.Assertion,
		ExistingStartTs:  existingTS,
		ExistingCommitTs: existingTS,
	}}
}

// ReadConflict returns the write conflict that a read has failed with, nil if it was something else.
func ReadConflict(err error) *kvrpcpb.WriteConflict {
	var c *conflictError
	if errors.As(err, &c) {
		return c.conflict
	}
	return nil
}
