package ddl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	sess "github.com/pingcap/tidb/pkg/ddl/session"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	storeerr "github.com/pingcap/tidb/pkg/store/driver/error"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
	tikvkv "github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/ddl/job"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/ddl/verdict"
	"fastddl/ingest"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

const (
	// maxRepairTries bounds the tries of one key in one round. A key that is
	// locked all the time is left to the next round.
	maxRepairTries = 20
	// rowLockWait is how long a repair waits for the lock of a row, in milliseconds.
	rowLockWait = 1000
)

// repairAll repairs the keys in which an index differs from the rows. If rows have
// equal values it fails with all of them.
func (t *task) repairAll(ctx context.Context, r *job.Record, task encode.Task, differences []compare.Difference) (int64, error) {
	encoder, err := encode.NewRowEncoder(task)
	if err != nil {
		return 0, err
	}
	p := repairer{t: t, record: r, task: task, encoder: encoder}
	var repaired int64
	for i := range differences {
		for try := 1; ; try++ {
			wrote, err := p.repair(ctx, &differences[i])
			if err == nil {
				if wrote {
					repaired++
				}
				break
			}
			if ctx.Err() != nil {
				return repaired, context.Cause(ctx)
			}
			if !isLockConflict(err) {
				if v, ok := verdict.Of(ctx, t.d.opts.Builds, task, err); ok {
					err = v
				}
				return repaired, err
			}
			if try == maxRepairTries {
				break
			}
			sleep.For(ctx, time.Duration(1+rand.IntN(10*try))*time.Millisecond)
		}
	}
	if len(p.duplicates) == 0 {
		return repaired, nil
	}
	v, _ := verdict.Of(ctx, t.d.opts.Builds, task, &ingest.DuplicateError{Groups: p.duplicates})
	return repaired, v
}

// repairer repairs keys of unique indexes under locks.
type repairer struct {
	t       *task
	record  *job.Record
	task    encode.Task
	encoder *encode.RowEncoder
	// duplicates are the keys that two rows have.
	duplicates []*ingest.DuplicateGroup
}

// repair makes one key what the rows say, and says whether it has written it. It locks
// the job's row, then the rows concerned, then the key without waiting for it: a writer
// that holds the key may want one of the rows next. If it cannot have all locks it has
// changed nothing.
func (p *repairer) repair(ctx context.Context, diff *compare.Difference) (wrote bool, err error) {
	ctx = session.Internal(ctx)
	err = p.t.d.sessions.With(func(se *sess.Session) (err error) {
		if err := se.BeginPessimistic(ctx); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		defer func() {
			if err != nil {
				se.Rollback()
			}
		}()
		if err := p.fence(ctx, se); err != nil {
			return err
		}
		txn, err := se.Txn()
		if err != nil {
			return err
		}
		if wrote, err = p.settleKey(ctx, se.GetStore(), txn, diff); err != nil {
			return err
		}
		return se.Commit(ctx)
	})
	return wrote, err
}

// fence makes the repair fail if the job is not ours any more, and keeps it ours
// until the repair is committed.
func (p *repairer) fence(ctx context.Context, se *sess.Session) error {
	if err := p.t.lockRecord(ctx, se); err != nil {
		return err
	}
	rows, err := se.Execute(ctx, `SELECT job_meta FROM mysql.tidb_ddl_job WHERE job_id = %? FOR UPDATE`, "index_repair", p.record.RowID)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return schema.ErrRowTaken
	}
	if ours, err := schema.OwnPausedRow(rows[0].GetBytes(0)); err != nil || !ours {
		return errors.Join(err, schema.ErrRowTaken)
	}
	return nil
}

// settleKey locks what the key depends on, and writes what the rows say into txn, if
// that is not there. A key that was written since the comparison is left to the next one.
func (p *repairer) settleKey(ctx context.Context, store tidbkv.Storage, txn tidbkv.Transaction, diff *compare.Difference) (wrote bool, err error) {
	rowKeys, err := p.rowsConcerned(diff)
	if err != nil {
		return false, err
	}
	if err := lockKeys(ctx, store, txn, rowLockWait, rowKeys...); err != nil {
		return false, err
	}
	if err := lockKeys(ctx, store, txn, tikvkv.LockNoWait, diff.Key); err != nil {
		return false, err
	}
	version, err := store.CurrentVersion(oracle.GlobalTxnScope)
	if err != nil {
		return false, err
	}
	snapshot := store.GetSnapshot(version)
	actual, err := getOrNil(ctx, snapshot, diff.Key)
	if err != nil {
		return false, err
	}
	claims := ingest.NewDuplicateGroup(diff.Index, diff.Key)
	for _, key := range rowKeys {
		row, err := getOrNil(ctx, snapshot, key)
		if err != nil {
			return false, err
		}
		if row == nil {
			continue
		}
		values, err := verdict.EntriesAt(p.encoder, key, row, diff.Index, diff.Key)
		if err != nil {
			return false, err
		}
		for _, value := range values {
			claims.Add(value)
		}
	}
	switch {
	case len(claims.Values) > 1:
		claims.Rows = max(diff.Rows, int64(len(claims.Values)))
		p.duplicates = append(p.duplicates, claims)
	case !bytes.Equal(actual, diff.Actual):
		// Somebody has written the key since the comparison. Its entry may be that of a row
		// that is not locked here; the next comparison shows it.
	case diff.Rows == 0 && diff.Actual == nil: // what is hidden gets a tombstone over it
		return true, txn.Delete(diff.Key)
	case len(claims.Values) == 0 && actual != nil:
		return true, txn.Delete(diff.Key)
	case len(claims.Values) == 1 && !bytes.Equal(actual, claims.Values[0]):
		return true, txn.Set(diff.Key, claims.Values[0])
	}
	return false, nil
}

// rowsConcerned returns the keys of the rows that claim the key, or that the entry
// names.
func (p *repairer) rowsConcerned(diff *compare.Difference) ([]tidbkv.Key, error) {
	var keys []tidbkv.Key
	for _, c := range diff.Claims {
		keys = append(keys, c.RecordKey)
	}
	if diff.Actual == nil {
		return keys, nil
	}
	idx := model.FindIndexInfoByID(p.task.Table.Indices, diff.Index)
	if idx == nil {
		return nil, fmt.Errorf("index %d is not in table %s", diff.Index, p.task.Table.Name.O)
	}
	handle, err := tablecodec.DecodeIndexHandle(diff.Key, diff.Actual, len(idx.Columns))
	if err != nil {
		return nil, fmt.Errorf("decode entry %x: %w", diff.Key, err)
	}
	named := verdict.RecordKey(diff.Key, handle)
	for _, key := range keys {
		if bytes.Equal(key, named) {
			return keys, nil
		}
	}
	return append(keys, named), nil
}

// lockKeys locks keys in a pessimistic transaction, also if they were written
// since it began. wait is in milliseconds.
func lockKeys(ctx context.Context, store tidbkv.Storage, txn tidbkv.Transaction, wait int64, keys ...tidbkv.Key) error {
	if len(keys) == 0 {
		return nil
	}
	for {
		version, err := store.CurrentVersion(oracle.GlobalTxnScope)
		if err != nil {
			return err
		}
		err = txn.LockKeys(ctx, tikvkv.NewLockCtx(version.Ver, wait, time.Now()), keys...)
		if !tidbkv.ErrWriteConflict.Equal(err) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func getOrNil(ctx context.Context, snapshot tidbkv.Snapshot, key tidbkv.Key) ([]byte, error) {
	value, err := snapshot.Get(ctx, key)
	if tidbkv.IsErrNotFound(err) || errors.Is(err, kv.ErrNotExist) {
		return nil, nil
	}
	return value, err
}

// isLockConflict says that a repair did not get its locks, or met another writer.
func isLockConflict(err error) bool {
	return storeerr.ErrLockAcquireFailAndNoWaitSet.Equal(err) || storeerr.ErrLockWaitTimeout.Equal(err) ||
		exeerrors.ErrDeadlock.Equal(err) || tidbkv.IsTxnRetryableError(err)
}
