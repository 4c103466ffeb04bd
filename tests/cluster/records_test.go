package cluster

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	tidbcodec "github.com/pingcap/tidb/pkg/util/codec"
	"github.com/stretchr/testify/require"
	tikvkv "github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/kv"
	kvtikv "fastddl/kv/tikv"
)

// These tests are of what TiKV does with the records of locks, so they run over a real one only: neither
// the embedded store nor the stand-in has such records (see "What remains on TiKV" in docs/correctness.md).

// tikvStorage is what TiDB's storage over TiKV has besides.
type tikvStorage interface {
	clusterStorage
	GetRegionCache() *tikv.RegionCache
	SendReq(bo *tikv.Backoffer, req *tikvrpc.Request, region tikv.RegionVerID, timeout time.Duration) (*tikvrpc.Response, error)
}

// seekBound is SEEK_BOUND of TiKV (src/storage/mvcc/reader/scanner/mod.rs): readers jump over so many
// LOCK records, and step over fewer.
const seekBound = 8

// recordsIndex is an index of a table that does not exist, in a cluster that has nothing in it.
type recordsIndex struct {
	t       *testing.T
	storage tikvStorage
	store   *kvtikv.Store
	table   int64
	columns kv.EntryColumns
}

const recordsIndexID = 1

func openRecordsIndex(t *testing.T) *recordsIndex {
	t.Helper()
	if emptyCluster == "" {
		t.Skip("a real TiKV is needed: FASTDDL_EMPTY_CLUSTER")
	}
	storage := openStorageAt(t, emptyCluster).(tikvStorage)
	x := &recordsIndex{t: t, storage: storage, store: openDriver(t, storage)}
	// Another run of the tests has other keys.
	x.table = 1<<40 + int64(x.now()>>18&(1<<30-1))
	x.columns.Index = []*model.ColumnInfo{{ID: 1, FieldType: *types.NewFieldType(mysql.TypeLonglong)}}
	return x
}

func (x *recordsIndex) now() uint64 {
	x.t.Helper()
	ts, err := x.store.CurrentTS(x.t.Context())
	require.NoError(x.t, err)
	return ts
}

func (x *recordsIndex) key(i int) tidbkv.Key {
	x.t.Helper()
	key, err := tidbcodec.EncodeKey(time.UTC, slices.Clone(tablecodec.EncodeTableIndexPrefix(x.table, recordsIndexID)), types.NewIntDatum(int64(i)))
	require.NoError(x.t, err)
	return key
}

func (x *recordsIndex) entries() kv.KeyRange {
	return kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(x.table, recordsIndexID))
}

// rowKey is a key that transactions write, so that it is their primary key.
func (x *recordsIndex) rowKey(i int) tidbkv.Key {
	return tablecodec.EncodeRowKeyWithHandle(x.table, tidbkv.IntHandle(i))
}

// write commits one transaction.
func (x *recordsIndex) write(change func(tidbkv.Transaction) error) {
	x.t.Helper()
	txn, err := x.storage.Begin()
	require.NoError(x.t, err)
	require.NoError(x.t, change(txn))
	require.NoError(x.t, txn.Commit(x.t.Context()))
}

// lock leaves the LOCK record of a pessimistic transaction at a key, which it locks so many times.
func (x *recordsIndex) lock(key tidbkv.Key, times int) {
	x.t.Helper()
	txn, err := x.storage.Begin()
	require.NoError(x.t, err)
	txn.SetOption(tidbkv.Pessimistic, true)
	for range times {
		version, err := x.storage.CurrentVersion(oracle.GlobalTxnScope)
		require.NoError(x.t, err)
		require.NoError(x.t, txn.LockKeys(x.t.Context(), tikvkv.NewLockCtx(version.Ver, tikvkv.LockNoWait, time.Now()), key))
	}
	require.NoError(x.t, txn.Set(x.rowKey(1), []byte("row")))
	require.NoError(x.t, txn.Commit(x.t.Context()))
}

// importAt imports an entry for each key.
func (x *recordsIndex) importAt(version uint64, keys []tidbkv.Key) {
	x.t.Helper()
	w, err := x.store.NewImportWriter(x.t.Context(), kv.ImportOptions{Dir: x.t.TempDir(), Version: version})
	require.NoError(x.t, err)
	for _, k := range keys {
		require.NoError(x.t, w.Add(k, []byte("12345678")))
	}
	u, err := w.Finish(x.t.Context())
	require.NoError(x.t, err)
	require.NoError(x.t, x.store.Import(x.t.Context(), []kv.ImportUnit{u}))
}

// seen says whether a snapshot sees a key, by a lookup, forward and backward.
func (x *recordsIndex) seen(ts uint64, key tidbkv.Key) (get, forward, backward bool) {
	x.t.Helper()
	snap, err := x.store.Snapshot(x.t.Context(), ts)
	require.NoError(x.t, err)
	defer func() { require.NoError(x.t, snap.Close()) }()
	_, err = x.storage.GetSnapshot(tidbkv.NewVersion(ts)).Get(x.t.Context(), key)
	if !tidbkv.IsErrNotFound(err) {
		require.NoError(x.t, err)
		get = true
	}
	r := kv.KeyRange{Start: key, End: kv.NextKey(key)}
	iter, err := snap.Iter(r)
	require.NoError(x.t, err)
	forward = iter.Valid()
	require.NoError(x.t, iter.Close())
	reverse, err := snap.IterReverse(r)
	require.NoError(x.t, err)
	backward = reverse.Valid()
	require.NoError(x.t, reverse.Close())
	return get, forward, backward
}

// shadowed are the keys that the driver finds hidden.
func (x *recordsIndex) shadowed(ts uint64) (keys []string) {
	x.t.Helper()
	require.NoError(x.t, x.store.Shadowed(x.t.Context(), []kv.KeyRange{x.entries()}, ts, x.columns, func(key []byte) error {
		keys = append(keys, string(key))
		return nil
	}))
	slices.Sort(keys)
	return keys
}

// history is what has happened to a key until an entry is imported below.
type history struct {
	older  string // "", "tombstone" or "entry and tombstone": before S
	before int    // LOCK records before S
	after  int    // and after it
	inOne  int    // how many times the transaction of each of them locks the key
	split  bool   // half of the records after S come when the import is there
	hidden bool
}

func (h history) String() string {
	return fmt.Sprintf("older %q, %d before S, %d after, each locks %d times, late %v", h.older, h.before, h.after, max(1, h.inOne), h.split)
}

// TestLockRecordsHideEntries: what the records of locks hide from readers that go forward, and that the driver finds
// exactly that.
func TestLockRecordsHideEntries(t *testing.T) {
	x := openRecordsIndex(t)
	var histories []history
	for _, older := range []string{"", "tombstone", "entry and tombstone"} {
		for _, n := range []int{0, 1, 2, 7, 8, 9, 20} {
			// Without an older version the record says that there is none. With one it says where that is, and is
			// believed when there are many.
			hides := n > 0 && older == "" || n >= seekBound
			histories = append(histories,
				history{older: older, after: n, hidden: hides},
				history{older: older, before: n},
				history{older: older, before: n, after: 1, hidden: older == "" || n+1 >= seekBound},
				history{older: older, after: n, inOne: 20, hidden: hides},
			)
			if n > 1 {
				// A lock on an existing key records that, or copies it from the record before.
				histories = append(histories, history{older: older, after: n, split: true, hidden: older == "" || n >= seekBound})
			}
		}
	}
	keys := make([]tidbkv.Key, len(histories))
	for i, h := range histories {
		keys[i] = x.key(i)
		if h.older != "" {
			if h.older == "entry and tombstone" {
				x.write(func(txn tidbkv.Transaction) error { return txn.Set(keys[i], []byte("87654321")) })
			}
			x.write(func(txn tidbkv.Transaction) error { return txn.Delete(keys[i]) })
		}
		for range h.before {
			x.lock(keys[i], max(1, h.inOne))
		}
	}
	version := x.now()
	for i, h := range histories {
		n := h.after
		if h.split {
			n /= 2
		}
		for range n {
			x.lock(keys[i], max(1, h.inOne))
		}
	}
	x.importAt(version, keys)
	for i, h := range histories {
		if !h.split {
			continue
		}
		for range h.after - h.after/2 {
			x.lock(keys[i], max(1, h.inOne))
		}
	}

	ts := x.now()
	var hidden []string
	for i, h := range histories {
		get, forward, backward := x.seen(ts, keys[i])
		if !forward {
			hidden = append(hidden, string(keys[i]))
		}
		t.Logf("%s: get %v, forward %v, backward %v", h, get, forward, backward)
		if !backward {
			t.Errorf("%s: a reader that goes backward misses it", h)
		}
		if get != forward {
			t.Errorf("%s: a lookup and a scan do not agree", h)
		}
		if forward == h.hidden {
			t.Errorf("%s: hidden %v was expected", h, h.hidden)
		}
	}
	slices.Sort(hidden)
	require.NotEmpty(t, hidden)
	require.Equal(t, hidden, x.shadowed(ts))
	all, err := x.store.CountAll(t.Context(), []kv.KeyRange{x.entries()}, ts, x.columns)
	require.NoError(t, err)
	require.EqualValues(t, len(keys), all, "those included that are hidden")
	sum, err := x.store.Checksum(t.Context(), x.entries(), ts)
	require.NoError(t, err)
	require.EqualValues(t, len(keys)-len(hidden), sum.Pairs)

	// A tombstone over what is hidden is what the repair of a build writes.
	x.write(func(txn tidbkv.Transaction) error {
		for _, k := range hidden {
			if err := txn.Delete(tidbkv.Key(k)); err != nil {
				return err
			}
		}
		return nil
	})
	require.Empty(t, x.shadowed(x.now()))
}

// call sends a request to the region of a key.
func (x *recordsIndex) call(tp tikvrpc.CmdType, key []byte, req any) any {
	x.t.Helper()
	const maxBackoff = 60_000 // milliseconds
	bo := tikv.NewBackofferWithVars(x.t.Context(), maxBackoff, nil)
	region, err := x.storage.GetRegionCache().LocateKey(bo, key)
	require.NoError(x.t, err)
	resp, err := x.storage.SendReq(bo, tikvrpc.NewRequest(tp, req), region.Region, time.Minute)
	require.NoError(x.t, err)
	regionErr, err := resp.GetRegionError()
	require.NoError(x.t, err)
	require.Nil(x.t, regionErr)
	return resp.Resp
}

// prewrite prewrites a row, which is the primary key, and locks, and returns when the transaction began.
func (x *recordsIndex) prewrite(row tidbkv.Key, async bool, ttl uint64, locks ...tidbkv.Key) (start uint64) {
	x.t.Helper()
	start = x.now()
	req := &kvrpcpb.PrewriteRequest{
		StartVersion: start, LockTtl: ttl, PrimaryLock: row, TxnSize: uint64(1 + len(locks)), MinCommitTs: start + 1,
		Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: row, Value: []byte("row")}},
	}
	for _, k := range locks {
		req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: kvrpcpb.Op_Lock, Key: k})
	}
	if async {
		req.UseAsyncCommit = true
		for _, k := range locks {
			req.Secondaries = append(req.Secondaries, k)
		}
	}
	resp := x.call(tikvrpc.CmdPrewrite, row, req).(*kvrpcpb.PrewriteResponse)
	require.Empty(x.t, resp.Errors)
	require.Equal(x.t, async, resp.MinCommitTs != 0)
	return start
}

// TestLocksThatAreLeft: locks of keys that are not written stay when a client dies after the commit of its
// primary key, or after the prewrite if that is all there is. Readers pass them. SettleLocks makes records of
// them, and these hide what was imported.
func TestLocksThatAreLeft(t *testing.T) {
	x := openRecordsIndex(t)
	const ttl = 1000
	keys := []tidbkv.Key{x.key(1), x.key(2), x.key(3), x.key(4)}
	committed, async, dead, none := keys[0], keys[1], keys[2], keys[3]

	version := x.now()
	start := x.prewrite(x.rowKey(1), false, 3_600_000, committed)
	commit := &kvrpcpb.CommitRequest{StartVersion: start, CommitVersion: x.now(), Keys: [][]byte{x.rowKey(1)}}
	require.Nil(t, x.call(tikvrpc.CmdCommit, x.rowKey(1), commit).(*kvrpcpb.CommitResponse).Error)
	x.prewrite(x.rowKey(2), true, ttl, async)
	x.prewrite(x.rowKey(3), false, ttl, dead) // was not committed

	x.importAt(version, keys)
	before := x.now()
	for _, k := range keys {
		get, forward, backward := x.seen(before, k)
		require.Equal(t, []bool{true, true, true}, []bool{get, forward, backward}, "readers pass the locks: %x", k)
	}
	require.Empty(t, x.shadowed(before))

	require.NoError(t, x.store.SettleLocks(t.Context(), before, x.entries()))
	after := x.now()
	for _, k := range keys {
		get, forward, backward := x.seen(after, k)
		hides := bytes.Equal(k, committed) || bytes.Equal(k, async)
		t.Logf("get %v, forward %v, backward %v, expected to be hidden %v", get, forward, backward, hides)
		require.Equal(t, []bool{!hides, !hides, true}, []bool{get, forward, backward}, "%x", k)
	}
	require.Equal(t, []string{string(committed), string(async)}, x.shadowed(after))
	_, forward, _ := x.seen(after, none)
	require.True(t, forward)

	// Nothing is left that could become a record.
	for range 2 {
		require.NoError(t, x.store.SettleLocks(t.Context(), x.now(), x.entries()))
	}
	require.Equal(t, []string{string(committed), string(async)}, x.shadowed(x.now()))
}

// TestNoTransactionCommitsAtS: with writers that commit in one phase and asynchronously, whose commit timestamps follow
// those that others have.
func TestNoTransactionCommitsAtS(t *testing.T) {
	x := openRecordsIndex(t)
	const enough, writers = 500, 4
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	commits := make(map[uint64]bool)
	failures := make(chan error, writers)
	for w := range writers {
		go func() {
			failures <- func() error {
				for i := 0; ctx.Err() == nil; i++ {
					ts, err := commitOneRow(context.WithoutCancel(ctx), x.storage, x.rowKey(w*100+i%10), i%2 == 0)
					if err != nil {
						return err
					}
					mu.Lock()
					commits[ts] = true
					mu.Unlock()
				}
				return nil
			}()
		}()
	}
	ours, plain := make(map[uint64]bool), make(map[uint64]bool)
	committed := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(commits)
	}
	for committed() < enough && len(failures) == 0 {
		ours[x.now()] = true
		version, err := x.storage.CurrentVersion(oracle.GlobalTxnScope)
		require.NoError(t, err)
		plain[version.Ver] = true
	}
	stop()
	for range writers {
		require.NoError(t, <-failures)
	}
	met := 0
	for ts := range commits {
		require.False(t, ours[ts], "a transaction has committed at S")
		if plain[ts] {
			met++
		}
	}
	t.Logf("%d commits, none at one of %d S, %d at one of %d timestamps that PD had handed out", len(commits), len(ours), met, len(plain))
	require.Positive(t, met, "nothing was tried")
}

// commitOneRow commits a row in one phase or asynchronously, and returns when that was.
func commitOneRow(ctx context.Context, storage tidbkv.Storage, key tidbkv.Key, onePhase bool) (uint64, error) {
	txn, err := storage.Begin()
	if err != nil {
		return 0, err
	}
	txn.SetOption(tidbkv.EnableAsyncCommit, true)
	txn.SetOption(tidbkv.Enable1PC, onePhase)
	txn.SetOption(tidbkv.GuaranteeLinearizability, false)
	if err := txn.Set(key, fmt.Append(nil, txn.StartTS())); err != nil {
		return 0, err
	}
	var info struct {
		CommitTS uint64 `json:"commit_ts"`
	}
	txn.SetOption(tidbkv.CommitHook, func(text string, _ error) { err = json.Unmarshal([]byte(text), &info) })
	if err := txn.Commit(ctx); err != nil {
		return 0, err
	}
	return info.CommitTS, err
}

// TestUniqueOverLockRecords: transactions lock values that other rows have while a unique index is built, once and
// again and again, and leave them as they were. On TiKV that leaves LOCK records, and tombstones, above what
// is imported.
func TestUniqueOverLockRecords(t *testing.T) {
	t.Parallel()
	const rows, workers = 600, 6
	builds := 1
	if live != "" {
		builds = 3
	}
	c := anyCluster(t)
	n := startNode(t, c)
	db := n.open()
	db.exec("CREATE TABLE u (id INT PRIMARY KEY, k INT, v INT)",
		fmt.Sprintf("INSERT INTO u WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < %d) SELECT n, n * 7, 0 FROM r", rows))
	pd, err := c.Open()
	require.NoError(t, err)
	// One for all builds: TiDB's driver gives all who open a cluster the same storage.
	var store *kvtikv.Store
	if !namesKeyspace(pd.Path()) {
		store = openDriver(t, openStorageAt(t, pd.Path()))
	}
	for build := range builds {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for w := range workers {
			running.Go(func() { lockValues(ctx, t, db.session(), w, workers, rows, int64(build)) })
		}
		// Each step of a build waits for transactions that are open, so that the others have time.
		for range 2 {
			running.Go(func() { holdTable(ctx, t, db.session()) })
		}
		began := time.Now()
		err := db.try("ALTER TABLE u ADD UNIQUE INDEX k (k)")
		stop()
		running.Wait()
		require.NoError(t, err)
		t.Logf("build %d: %v, %s", build, time.Since(began), db.lastJob("CONCAT(repaired_keys, ' repaired in ', comparisons, ' comparisons')"))
		require.Equal(t, fmt.Sprint(rows), db.value("SELECT COUNT(*) FROM u IGNORE INDEX (k)"))
		checkUnique(t, db)
		if store != nil {
			requireNothingHidden(t, store, db)
		}
		db.exec("ALTER TABLE u DROP INDEX k")
	}
}

// holdTable has transactions that use the table for a second each.
func holdTable(ctx context.Context, t *testing.T, conn *sql.Conn) {
	for ctx.Err() == nil {
		for _, q := range []string{"BEGIN", "SELECT v FROM u WHERE id = 1", "SELECT SLEEP(1)", "COMMIT"} {
			if _, err := conn.ExecContext(t.Context(), q); err != nil {
				t.Errorf("%s: %v", q, err)
				return
			}
		}
	}
}

// lockValues has transactions that give a row of this worker's values of other rows, and its own again, or insert
// such rows and delete them.
func lockValues(ctx context.Context, t *testing.T, conn *sql.Conn, worker, workers, rows int, seed int64) {
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(worker)))
	for ctx.Err() == nil {
		own := worker + 1 + rng.IntN(rows/workers)*workers
		other := 1 + rng.IntN(rows)
		begin := []string{"BEGIN PESSIMISTIC", "BEGIN OPTIMISTIC"}[rng.IntN(4)/3]
		var changes []string
		for range []int{1, 1, 1, 2, 7, 20}[rng.IntN(6)] {
			switch rng.IntN(3) {
			case 0:
				changes = append(changes, fmt.Sprintf("UPDATE u SET k = %d WHERE id = %d", other*7, own),
					fmt.Sprintf("UPDATE u SET k = %d WHERE id = %d", own*7, own))
			case 1:
				changes = append(changes, fmt.Sprintf("INSERT INTO u VALUES (%d, %d, 1)", rows+own, other*7), fmt.Sprintf("DELETE FROM u WHERE id = %d", rows+own))
			default:
				changes = append(changes, fmt.Sprintf("SELECT v FROM u WHERE k = %d FOR UPDATE", -rng.IntN(5)),
					fmt.Sprintf("INSERT IGNORE INTO u VALUES (%d, %d, 1)", worker+1, other*7))
			}
		}
		if rng.IntN(2) == 0 {
			changes = append(changes, fmt.Sprintf("UPDATE u SET v = v + 1 WHERE id = %d", own))
		}
		end := "COMMIT"
		for i, q := range append([]string{begin}, changes...) {
			if _, err := conn.ExecContext(t.Context(), q); err != nil {
				// What was changed must be changed back.
				if i > 1 || rng.IntN(2) == 0 {
					end = "ROLLBACK"
				}
				break
			}
		}
		if _, err := conn.ExecContext(t.Context(), end); err != nil {
			_, _ = conn.ExecContext(t.Context(), "ROLLBACK") // the index is complete already
		}
	}
}

// checkUnique compares the index with the rows in all ways.
func checkUnique(t *testing.T, db client) {
	t.Helper()
	conn := db.session()
	for _, fast := range []string{"ON", "OFF"} {
		must(t, conn, "SET tidb_enable_fast_table_check = "+fast, "ADMIN CHECK TABLE u")
	}
	require.Empty(t, db.rows("SELECT * FROM u IGNORE INDEX (k) WHERE k <> id * 7"))
	rows := db.rows("SELECT id, k FROM u IGNORE INDEX (k) ORDER BY k")
	for _, q := range []string{
		"SELECT id, k FROM u USE INDEX (k) WHERE k > -100 ORDER BY k",
		"SELECT * FROM (SELECT id, k FROM u USE INDEX (k) WHERE k > -100 ORDER BY k DESC LIMIT 100000) d ORDER BY k",
	} {
		require.Equal(t, rows, db.rows(q), q)
	}
	for _, r := range rows {
		require.Equal(t, r["id"], db.value("SELECT id FROM u USE INDEX (k) WHERE k = ?", r["k"]))
	}
}

// requireNothingHidden fails if garbage collection makes entries visible.
func requireNothingHidden(t *testing.T, store *kvtikv.Store, db client) {
	t.Helper()
	number := func(query string) int64 {
		n, err := strconv.ParseInt(db.value(query), 10, 64)
		require.NoError(t, err)
		return n
	}
	r := kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(
		number("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'u'"),
		number("SELECT index_id FROM information_schema.tidb_indexes WHERE table_schema = DATABASE() AND table_name = 'u' AND key_name = 'k'")))
	ts, err := store.CurrentTS(t.Context())
	require.NoError(t, err)
	columns := kv.EntryColumns{Index: []*model.ColumnInfo{{ID: 2, FieldType: *types.NewFieldType(mysql.TypeLong)}}}
	require.NoError(t, store.Shadowed(t.Context(), []kv.KeyRange{r}, ts, columns, func(key []byte) error {
		return fmt.Errorf("%x is hidden", key)
	}))
}
