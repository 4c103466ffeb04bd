package sql_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/store/helper"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"

	"fastddl/ddl"
	"fastddl/sql"
)

// silent is a storage that loses the answer to a commit: it has happened, and its client does not know.
type silent struct {
	wholeStorage
	// loses is the table whose next commit that is.
	loses atomic.Int64
}

// wholeStorage is what TiDB looks for in a storage.
type wholeStorage interface {
	helper.Storage
	tidbkv.EtcdBackend
	tidbkv.StorageWithPD
	DelayGCWorker() (release func())
	StopGCWorker()
	KeepReadable(oldest func() uint64)
}

// Begin implements tidbkv.Storage.
func (s *silent) Begin(opts ...tikv.TxnOption) (tidbkv.Transaction, error) {
	txn, err := s.wholeStorage.Begin(opts...)
	return &silentTxn{txn, s}, err
}

type silentTxn struct {
	tidbkv.Transaction
	of *silent
}

var errSilence = errors.New("the answer was lost")

// Commit implements tidbkv.Transaction.
func (t *silentTxn) Commit(ctx context.Context) error {
	id := t.of.loses.Load()
	writes := false
	if id != 0 {
		prefix := tidbkv.Key(tablecodec.EncodeTablePrefix(id))
		it, err := t.GetMemBuffer().Iter(prefix, prefix.PrefixNext())
		if err != nil {
			return err
		}
		writes = it.Valid()
	}
	if err := t.Transaction.Commit(ctx); err != nil || !writes || !t.of.loses.CompareAndSwap(id, 0) {
		return err
	}
	return errSilence
}

// loseNext loses the answer to the next commit of a job's record.
func (s *silent) loseNext(e *env) {
	e.t.Helper()
	table, err := e.Domain().InfoSchema().TableByName(context.Background(), pmodel.NewCIStr("mysql"), pmodel.NewCIStr("fastddl_ddl_record"))
	require.NoError(e.t, err)
	s.loses.Store(table.Meta().ID)
}

// A request that is in force is granted, also if the answer to its commit was lost, and so are
// settings.
func TestRequestWhoseAnswerIsLost(t *testing.T) {
	s := &silent{}
	e := newEnv(t, func(o *sql.Options) {
		s.wholeStorage = o.Storage.(wholeStorage)
		o.Storage = s
	})
	c := e.client()
	table(c, 100)
	holder := e.client() // what the job waits for, in an action that can be interrupted
	holder.run("BEGIN; SELECT * FROM t")
	result := e.start(addUnique)
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		return len(jobs) == 1 && jobs[0].Step == "delete-only"
	}, hangTimeout, time.Millisecond)
	id := e.DDL().Unfinished()[0].ID
	s.loseNext(e)
	require.NoError(t, e.DDL().Pause(t.Context(), id))
	require.Zero(t, s.loses.Load(), "nothing was lost")
	require.Eventually(t, func() bool { return e.DDL().Unfinished()[0].State == "paused" }, hangTimeout, time.Millisecond)

	threads := 3
	s.loseNext(e)
	require.NoError(t, e.DDL().Alter(t.Context(), id, ddl.Alteration{Threads: &threads}))
	require.Zero(t, s.loses.Load(), "nothing was lost")
	require.Equal(t, 3, e.DDL().Unfinished()[0].Settings.Threads)

	s.loseNext(e)
	require.NoError(t, e.DDL().Resume(t.Context(), id))
	require.Zero(t, s.loses.Load(), "nothing was lost")
	holder.run("COMMIT")
	require.NoError(t, wait(t, result))
	c.check("t")
}
