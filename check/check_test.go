package check

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/catalog"
	"fastddl/ddl/builder"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStore(t *testing.T) kv.Store {
	t.Helper()
	store, err := pebblekv.Open("db", pebblekv.Options{
		FS: vfs.NewMem(), DisableSync: true, GCRunInterval: func() time.Duration { return 0 },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func define(t *testing.T, sql string) *catalog.Table {
	t.Helper()
	stmt, err := parser.New().ParseOneStmt(sql, "", "")
	require.NoError(t, err)
	db := &model.DBInfo{Name: pmodel.NewCIStr("test"), Charset: "utf8mb4", Collate: "utf8mb4_bin"}
	env := &builder.Env{SQLMode: mysql.ModeStrictTransTables, ClusteredIndex: true}
	info, err := builder.NewTable(env, stmt.(*ast.CreateTableStmt), db)
	require.NoError(t, err)
	info.ID = 100
	return &catalog.Table{DB: db, Info: info}
}

func insert(t *testing.T, store kv.Store, tbl *catalog.Table, rows [][]types.Datum) {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, kv.Retrying(ctx, store, func(ctx context.Context, txn kv.Txn) error {
		for i, row := range rows {
			if _, err := table.Of(tbl).AddRecord(ctx, txn, row, table.AddOptions{RowID: int64(i + 1)}); err != nil {
				return err
			}
		}
		return nil
	}))
}

func write(t *testing.T, store kv.Store, fn func(txn kv.Txn)) {
	t.Helper()
	ctx := context.Background()
	txn, err := store.Begin(ctx)
	require.NoError(t, err)
	fn(txn)
	require.NoError(t, txn.Commit(ctx))
}

func now(t *testing.T, store kv.Store) uint64 {
	t.Helper()
	ts, err := store.CurrentTS(context.Background())
	require.NoError(t, err)
	return ts
}

func row(values ...any) []types.Datum {
	out := make([]types.Datum, len(values))
	for i, v := range values {
		out[i] = types.NewDatum(v)
	}
	return out
}

// Each single corruption is found and named.
func TestEveryCorruptionIsNamed(t *testing.T) {
	const ddl = `create table t (id bigint primary key, k int, s varchar(20) collate utf8mb4_general_ci, u int,
		key k (k), key s (s, k), unique key u (u))`
	ctx := context.Background()
	for _, tc := range []struct {
		name    string
		corrupt func(t *testing.T, txn kv.Txn, tbl *table.Table)
		want    InconsistentError
		text    string
	}{
		{
			name: "entry missing",
			corrupt: func(t *testing.T, txn kv.Txn, tbl *table.Table) {
				key, _ := entry(t, tbl, "k", 17)
				require.NoError(t, txn.Delete(key))
			},
			want: InconsistentError{Index: "k", Handle: "17", RecordValues: "handle: 17, values: [3]"},
			text: `data inconsistency in table: t, index: k, handle: 17, index-values:"" != record-values:"handle: 17, values: [3]"`,
		},
		{
			name: "entry without a row",
			corrupt: func(t *testing.T, txn kv.Txn, tbl *table.Table) {
				key, value := entryFor(t, tbl, "k", row(int64(5000), int64(9), "x", int64(9)), 5000)
				require.NoError(t, txn.Set(key, value))
			},
			want: InconsistentError{Index: "k", Handle: "5000", IndexValues: "handle: 5000, values: [9]"},
		},
		{
			name: "row missing",
			corrupt: func(t *testing.T, txn kv.Txn, tbl *table.Table) {
				require.NoError(t, txn.Delete(tbl.RecordKey(tkv.IntHandle(40))))
			},
			want: InconsistentError{Index: "k", Handle: "40", IndexValues: "handle: 40, values: [5]"},
		},
		{
			name: "row changed behind the index",
			corrupt: func(t *testing.T, txn kv.Txn, tbl *table.Table) {
				value, err := tbl.EncodeRow(row(int64(40), int64(-1), "S40", int64(40)))
				require.NoError(t, err)
				require.NoError(t, txn.Set(tbl.RecordKey(tkv.IntHandle(40)), value))
			},
			want: InconsistentError{Index: "k", Handle: "40", RecordValues: "handle: 40, values: [-1]"},
		},
		{
			name: "restored value lost",
			corrupt: func(t *testing.T, txn kv.Txn, tbl *table.Table) {
				key, _ := entry(t, tbl, "s", 12)
				_, other := entry(t, tbl, "s", 13)
				require.NoError(t, txn.Set(key, other))
			},
			want: InconsistentError{
				Index: "s", Handle: "12",
				IndexValues: "handle: 12, values: [\x00S\x001\x002 5]", RecordValues: "handle: 12, values: [S12 5]",
			},
		},
		{
			name: "unique entry of another row",
			corrupt: func(t *testing.T, txn kv.Txn, tbl *table.Table) {
				key, _ := entry(t, tbl, "u", 12)
				_, other := entry(t, tbl, "u", 13)
				require.NoError(t, txn.Set(key, other))
			},
			want: InconsistentError{
				Index: "u", Handle: "12",
				IndexValues: "handle: 13, values: [12]", RecordValues: "handle: 12, values: [12]",
			},
		},
		{
			name: "duplicate in a unique index",
			corrupt: func(t *testing.T, txn kv.Txn, tbl *table.Table) {
				value, err := tbl.EncodeRow(row(int64(5000), int64(1), "S5000", int64(12)))
				require.NoError(t, err)
				require.NoError(t, txn.Set(tbl.RecordKey(tkv.IntHandle(5000)), value))
				for _, name := range []string{"k", "s"} {
					key, value := entryFor(t, tbl, name, row(int64(5000), int64(1), "S5000", int64(12)), 5000)
					require.NoError(t, txn.Set(key, value))
				}
			},
			want: InconsistentError{
				Index: "u", Handle: "5000",
				IndexValues: "handle: 12, values: [12]", RecordValues: "handle: 5000, values: [12]",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store, ct := openStore(t), define(t, ddl)
			tbl := table.Of(ct)
			var rows [][]types.Datum
			for i := range int64(200) {
				rows = append(rows, row(i, i%7, fmt.Sprintf("S%d", i), i))
			}
			insert(t, store, ct, rows)
			before := now(t, store)
			require.NoError(t, Table(ctx, store, ct, before, Options{}))

			write(t, store, func(txn kv.Txn) { tc.corrupt(t, txn, tbl) })
			err := Table(ctx, store, ct, now(t, store), Options{})
			var got *InconsistentError
			require.ErrorAs(t, err, &got)
			te, ok := builder.AsTerror(err)
			require.True(t, ok)
			require.EqualValues(t, 8223, te.Code())
			if tc.text != "" {
				require.Equal(t, tc.text, te.GetMsg())
			}
			tc.want.Table = "t"
			found := *got
			found.coded = nil
			require.Equal(t, tc.want, found)

			require.Error(t, Index(ctx, store, ct, tc.want.Index, now(t, store), Options{}))
			require.NoError(t, Table(ctx, store, ct, before, Options{}), "the snapshot before is not touched")
		})
	}
}

func entry(t *testing.T, tbl *table.Table, index string, i int64) (key, value []byte) {
	t.Helper()
	return entryFor(t, tbl, index, row(i, i%7, fmt.Sprintf("S%d", i), i), i)
}

func entryFor(t *testing.T, tbl *table.Table, index string, r []types.Datum, h int64) (key, value []byte) {
	t.Helper()
	key, value, _, err := tbl.IndexEntry(tbl.Meta().FindIndexByName(index), r, tkv.IntHandle(h))
	require.NoError(t, err)
	return key, value
}

func TestUndecodableRow(t *testing.T) {
	ctx := context.Background()
	store, ct := openStore(t), define(t, "create table t (id int primary key, k int, key k (k))")
	write(t, store, func(txn kv.Txn) {
		require.NoError(t, txn.Set(table.Of(ct).RecordKey(tkv.IntHandle(1)), []byte{128, 7}))
	})
	err := Table(ctx, store, ct, now(t, store), Options{})
	te, ok := builder.AsTerror(err)
	require.True(t, ok, "%v", err)
	require.EqualValues(t, 8003, te.Code())
}

func TestIndexNames(t *testing.T) {
	ctx := context.Background()
	store, ct := openStore(t), define(t, "create table t (id int primary key, k int, key k (k))")
	ts := now(t, store)
	require.NoError(t, Index(ctx, store, ct, "K", ts, Options{}))
	require.NoError(t, Index(ctx, store, ct, "PRIMARY", ts, Options{}))
	te, ok := builder.AsTerror(Index(ctx, store, ct, "nope", ts, Options{}))
	require.True(t, ok)
	require.EqualValues(t, 1176, te.Code())
	require.ErrorContains(t, Table(ctx, store, ct, ts, Options{Workers: -1}), "Workers")
}

func TestCancel(t *testing.T) {
	store, ct := openStore(t), define(t, "create table t (id int primary key)")
	insert(t, store, ct, [][]types.Datum{row(int64(1))})
	ctx, cancel := context.WithCancel(context.Background())
	ts := now(t, store)
	cancel()
	require.ErrorIs(t, Table(ctx, store, ct, ts, Options{}), context.Canceled)
}

// The entries computed here equal those that the DML path writes, for random
// rows of all kinds of tables.
func TestAgreesWithDML(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ctx := context.Background()
	for _, ddl := range []string{
		`create table t (a varchar(30) collate utf8mb4_general_ci, b int, c varbinary(20), d decimal(12,3), e datetime(3), f double,
			primary key (a, b), key c (c(5)), key ab (a(3), d), unique key d (d), key ef (e, f))`,
		`create table t (a varchar(30) collate utf8mb4_0900_ai_ci, b int, c varbinary(20), d decimal(12,3), e datetime(3), f double,
			primary key (a(4)) nonclustered, key c (c), key ab (a, d), unique key d (d, b), key ef (f, e))`,
		`create table t (a varchar(30), b bigint unsigned, c varbinary(20), d decimal(12,3), e datetime(3), f double,
			primary key (b), key c (c(2), a(2)), unique key ab (a, d))`,
		`create table t (a varchar(30) collate utf8mb4_bin, b int, c varbinary(20), d decimal(12,3), e datetime(3), f double,
			primary key (a(6), c(3)), key a (a), key a4 (a(4)), key a9 (a(9)))`,
		`create table t (a varchar(30), b int, c varbinary(20), d decimal(12,3), e datetime(3), f double,
			unique key a (a), unique key bc (b, c))`,
	} {
		store, ct := openStore(t), define(t, ddl)
		tbl := table.Of(ct)
		for i := range 300 {
			r := randomRow(rng, ct.Info)
			txn, err := store.Begin(ctx)
			require.NoError(t, err)
			_, err = tbl.AddRecord(ctx, txn, r, table.AddOptions{RowID: int64(i + 1)})
			var dup *table.DuplicateError
			if errors.As(err, &dup) {
				require.NoError(t, txn.Rollback())
				continue
			}
			require.NoError(t, err)
			require.NoError(t, txn.Commit(ctx))
		}
		require.NoError(t, Table(ctx, store, ct, now(t, store), Options{}), ddl)
	}
}

func randomRow(rng *rand.Rand, info *model.TableInfo) []types.Datum {
	letters := []rune("aAbBßé é Z")
	str := func() string {
		s := make([]rune, rng.IntN(12))
		for i := range s {
			s[i] = letters[rng.IntN(len(letters))]
		}
		return string(s)
	}
	dec := types.NewDecFromStringForTest(fmt.Sprintf("%d.%03d", rng.IntN(2000)-1000, rng.IntN(1000)))
	when := types.NewTime(types.FromGoTime(time.Unix(int64(rng.IntN(1e9)), 0).UTC()), mysql.TypeDatetime, 3)
	var b any = int64(rng.IntN(1000))
	if mysql.HasUnsignedFlag(info.Columns[1].GetFlag()) {
		b = rng.Uint64()
	}
	r := row(str(), b, []byte(str()), dec, when, rng.NormFloat64())
	for i := range r {
		if !mysql.HasNotNullFlag(info.Columns[i].GetFlag()) && rng.IntN(6) == 0 {
			r[i].SetNull()
		}
	}
	return r
}

func TestChecksum(t *testing.T) {
	ctx := context.Background()
	store, ct := openStore(t), define(t, "create table t (id int primary key, k int, key k (k))")
	sum := func() ChecksumResult {
		r, err := Checksum(ctx, store, ct, now(t, store), Options{})
		require.NoError(t, err)
		return r
	}
	require.Equal(t, ChecksumResult{}, sum())
	insert(t, store, ct, [][]types.Datum{row(int64(1), int64(10)), row(int64(2), int64(20))})
	both := sum()
	require.EqualValues(t, 4, both.TotalKVs)
	require.NotZero(t, both.CRC64XOR)

	// It is made of the pairs alone, so it comes back with them.
	write(t, store, func(txn kv.Txn) {
		require.NoError(t, table.Of(ct).RemoveRecord(ctx, txn, tkv.IntHandle(2), row(int64(2), int64(20))))
	})
	require.NotEqual(t, both.CRC64XOR, sum().CRC64XOR)
	require.EqualValues(t, 2, sum().TotalKVs)
	insert(t, store, ct, [][]types.Datum{row(int64(2), int64(20))})
	require.Equal(t, both, sum())
}
