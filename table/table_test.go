package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// What each schema state makes DML write to an index.
func TestIndexMaintenanceByState(t *testing.T) {
	ctx := context.Background()
	for _, unique := range []bool{false, true} {
		for state, want := range map[model.SchemaState]struct{ puts, deletes bool }{
			model.StateNone:                {false, false},
			model.StateDeleteOnly:          {false, true},
			model.StateWriteOnly:           {true, true},
			model.StateWriteReorganization: {true, true},
			model.StatePublic:              {true, true},
		} {
			t.Run(fmt.Sprintf("%s unique=%v", state, unique), func(t *testing.T) {
				tbl := buildTable("t").column("id", bigint()).column("k", bigint()).column("c", bigint()).
					clustered(ic(0)).index("k", unique, state, ic(1)).table(t)
				entry := func(k int64) string {
					key, _, _, err := tbl.IndexEntry(tbl.Meta().Indices[0], row(1, k, 0), tkv.IntHandle(1))
					require.NoError(t, err)
					return string(key)
				}
				txn := newFakeTxn()
				h, err := tbl.AddRecord(ctx, txn, row(1, 10, 0), AddOptions{})
				require.NoError(t, err)
				require.Equal(t, want.puts, txn.writes[entry(10)] != nil, "insert puts")
				require.Equal(t, want.puts && !unique, txn.unchecked[entry(10)], "only derived keys skip the conflict check")

				// The entry may not exist: its removal is written all the same.
				delete(txn.data, entry(10))
				txn.forget()
				_, err = tbl.UpdateRecord(ctx, txn, h, row(1, 10, 0), row(1, 20, 0))
				require.NoError(t, err)
				old, written := txn.writes[entry(10)]
				require.Equal(t, want.deletes, written, "update deletes")
				require.Nil(t, old)
				require.Equal(t, want.puts, txn.writes[entry(20)] != nil, "update puts")

				txn.forget()
				_, err = tbl.UpdateRecord(ctx, txn, h, row(1, 20, 0), row(1, 20, 5))
				require.NoError(t, err)
				require.Len(t, txn.writes, 1, "an update of another column writes the row alone")

				delete(txn.data, entry(20))
				txn.forget()
				require.NoError(t, tbl.RemoveRecord(ctx, txn, h, row(1, 20, 5)))
				old, written = txn.writes[entry(20)]
				require.Equal(t, want.deletes, written, "delete deletes")
				require.Nil(t, old)
				if want.deletes {
					require.Equal(t, !unique, txn.unchecked[entry(20)], "only derived keys skip the conflict check")
				}
				require.False(t, txn.unchecked[string(tbl.RecordKey(h))])
			})
		}
	}
}

func TestDuplicateKeys(t *testing.T) {
	ctx := context.Background()
	tbl := buildTable("t").column("id", bigint()).column("a", bigint()).column("b", varchar(20, "utf8mb4_general_ci")).
		clustered(ic(0)).index("ab", true, model.StatePublic, ic(1), prefix(2, 3)).table(t)
	txn := newFakeTxn()
	add := func(values ...any) error {
		_, err := tbl.AddRecord(ctx, txn, row(values...), AddOptions{})
		return err
	}
	require.NoError(t, add(1, 7, "abcX"))
	require.NoError(t, add(2, nil, "abc"))
	require.NoError(t, add(3, nil, "abc"), "NULLs are not unique")
	txn.forget()

	var dup *DuplicateError
	require.ErrorAs(t, add(1, 8, "z"), &dup)
	require.Equal(t, "Duplicate entry '1' for key 't.PRIMARY'", dup.Error())
	require.Equal(t, int64(7), dup.Row[1].GetInt64())

	require.ErrorAs(t, add(4, 7, "ABCdef"), &dup, "equal under the collation, within the prefix")
	require.Equal(t, "Duplicate entry '7-ABC' for key 't.ab'", dup.Error())
	require.Equal(t, "abcX", dup.Row[2].GetString())

	_, err := tbl.UpdateRecord(ctx, txn, tkv.IntHandle(2), row(2, nil, "abc"), row(2, 7, "abc"))
	require.ErrorAs(t, err, &dup)
	_, err = tbl.UpdateRecord(ctx, txn, tkv.IntHandle(2), row(2, nil, "abc"), row(1, 9, "abc"))
	require.ErrorAs(t, err, &dup)
	require.Empty(t, txn.writes, "a failed change writes nothing")

	_, err = tbl.UpdateRecord(ctx, txn, tkv.IntHandle(1), row(1, 7, "abcX"), row(9, 7, "abcY"))
	require.NoError(t, err, "a moved row is no duplicate of itself")
}

func TestHiddenColumnsSurviveUpdates(t *testing.T) {
	ctx := context.Background()
	b := buildTable("t").column("id", bigint()).column("a", bigint()).clustered(ic(0)).column("n", bigint())
	added := b.info.Columns[2]
	added.OriginDefaultValue = "5"
	public := b.table(t)
	hiddenInfo := b.info.Clone()
	hiddenInfo.Columns[2].State = model.StateWriteOnly
	hidden := (&tableBuilder{hiddenInfo}).table(t)
	require.Len(t, hidden.Columns(), 2)

	txn := newFakeTxn()
	h, err := hidden.AddRecord(ctx, txn, row(1, 1), AddOptions{})
	require.NoError(t, err)
	got, err := public.Reader(txn, nil, nil).Get(ctx, h)
	require.NoError(t, err)
	require.Equal(t, int64(5), got[2].GetInt64(), "an insert that does not know the column gives it the origin default")

	_, err = public.UpdateRecord(ctx, txn, h, got, row(1, 1, 77))
	require.NoError(t, err)
	_, err = hidden.UpdateRecord(ctx, txn, h, row(1, 1), row(1, 2))
	require.NoError(t, err)
	got, err = public.Reader(txn, nil, nil).Get(ctx, h)
	require.NoError(t, err)
	require.Equal(t, int64(77), got[2].GetInt64(), "an update that does not know the column keeps its value")
}

func TestUnsignedHandleRanges(t *testing.T) {
	ctx := context.Background()
	tbl := buildTable("t").column("id", unsigned()).clustered(ic(0)).table(t)
	txn := newFakeTxn()
	ids := []uint64{0, 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64}
	for _, id := range ids {
		_, err := tbl.AddRecord(ctx, txn, []types.Datum{types.NewUintDatum(id)}, AddOptions{})
		require.NoError(t, err)
	}
	bound := func(v uint64, incl bool) Bound { return Bound{[]types.Datum{types.NewUintDatum(v)}, incl} }
	scan := func(lo, hi Bound, reverse bool) (got []uint64) {
		ranges, err := tbl.HandleRanges(lo, hi)
		require.NoError(t, err)
		for _, r := range readAll(t, tbl.Reader(txn, nil, nil), func(rd *Reader) (*RowIter, error) { return rd.Scan(ranges, reverse) }) {
			got = append(got, r[0].GetUint64())
		}
		return got
	}
	require.Equal(t, ids, scan(Bound{}, Bound{}, false))
	require.Equal(t, []uint64{math.MaxUint64, math.MaxInt64 + 1, math.MaxInt64, 1, 0}, scan(Bound{}, Bound{}, true))
	require.Equal(t, ids[2:4], scan(bound(1, false), bound(math.MaxUint64, false), false))
	require.Empty(t, scan(bound(math.MaxUint64, false), Bound{}, false))
	require.Empty(t, scan(bound(5, true), bound(4, true), false))
}

func readAll(t *testing.T, rd *Reader, open func(*Reader) (*RowIter, error)) (rows [][]types.Datum) {
	t.Helper()
	it, err := open(rd)
	require.NoError(t, err)
	defer func() { require.NoError(t, it.Close()) }()
	var handles []tkv.Handle
	for {
		h, r, err := it.Next(context.Background())
		if errors.Is(err, io.EOF) {
			for i, h := range handles {
				if !rd.table.HasHiddenRowID() && len(rows[i]) == len(rd.table.Columns()) {
					want, err := rd.table.HandleOf(rows[i])
					require.NoError(t, err)
					require.True(t, want.Equal(h), "handle %s, want %s", h, want)
				}
			}
			return rows
		}
		require.NoError(t, err)
		handles = append(handles, h)
		rows = append(rows, append([]types.Datum(nil), r...))
	}
}

// Random changes; then the index holds exactly the rows' entries, and reading
// through it, covering or not, gives what reading the rows gives.
func TestRandomDMLKeepsIndexes(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	ctx := context.Background()
	for round := range 20 {
		collation := []string{"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci"}[rng.Intn(3)]
		b := buildTable("t").column("id", bigint()).column("s", varchar(10, collation)).column("k", bigint())
		clustering := round % 3
		switch clustering {
		case 0:
			b.clustered(ic(0))
		case 1:
			b.clustered(ic(1), ic(0))
		}
		b.index("k", false, model.StatePublic, ic(2)).
			index("sk", false, model.StatePublic, ic(1), ic(2)).
			index("p", false, model.StatePublic, prefix(1, 2)).
			index("u", true, model.StatePublic, ic(2), ic(0))
		tbl := b.table(t)
		txn := newFakeTxn()
		rows := map[string][]types.Datum{}
		handles := map[string]tkv.Handle{}
		randomRow := func() []types.Datum {
			words := []string{"", "a", "A", "ab ", "abc", "ÄB", "z  "}
			r := row(rng.Intn(30), words[rng.Intn(len(words))], rng.Intn(5))
			if rng.Intn(4) == 0 {
				r[2] = types.Datum{}
			}
			return r
		}
		for i := range 200 {
			var key string
			for key = range rows {
				break
			}
			var err error
			var h tkv.Handle
			newRow := randomRow()
			switch op := rng.Intn(4); {
			case op < 2 || len(rows) == 0:
				h, err = tbl.AddRecord(ctx, txn, newRow, AddOptions{RowID: int64(i)})
			case op == 2:
				h, err = tbl.UpdateRecord(ctx, txn, handles[key], rows[key], newRow)
				if err == nil {
					delete(rows, key)
				}
			default:
				require.NoError(t, tbl.RemoveRecord(ctx, txn, handles[key], rows[key]))
				delete(rows, key)
				continue
			}
			var dup *DuplicateError
			if errors.As(err, &dup) {
				continue
			}
			require.NoError(t, err)
			rows[h.String()], handles[h.String()] = newRow, h
		}
		requireConsistent(t, tbl, txn, rows, handles)
	}
}

func requireConsistent(t *testing.T, tbl *Table, txn *fakeTxn, rows map[string][]types.Datum, handles map[string]tkv.Handle) {
	t.Helper()
	for _, cols := range [][]int{nil, {2, 0}, {1}} {
		want := readAll(t, tbl.Reader(txn, cols, nil), func(rd *Reader) (*RowIter, error) {
			return rd.Scan([]kv.KeyRange{tbl.RecordRange()}, false)
		})
		require.Len(t, want, len(rows))
		for _, idx := range tbl.PublicIndexes() {
			got := readAll(t, tbl.Reader(txn, cols, nil), func(rd *Reader) (*RowIter, error) {
				return rd.IndexScan(idx, []kv.KeyRange{tbl.IndexRange(idx)}, false)
			})
			require.ElementsMatch(t, texts(t, want), texts(t, got), "index %s columns %v", idx.Name, cols)
		}
	}
	for _, idx := range tbl.PublicIndexes() {
		want := map[string][]byte{}
		for key, r := range rows {
			k, v, _, err := tbl.IndexEntry(idx, r, handles[key])
			require.NoError(t, err)
			want[string(k)] = v
		}
		got := map[string][]byte{}
		for k, v := range txn.data {
			if tbl.IndexRange(idx).Contains([]byte(k)) {
				got[k] = v
			}
		}
		require.Equal(t, want, got, "index %s", idx.Name)
	}
}

func texts(t *testing.T, rows [][]types.Datum) (out []string) {
	for _, r := range rows {
		s, err := types.DatumsToString(r, true)
		require.NoError(t, err)
		out = append(out, s)
	}
	return out
}

func TestTimestampReadsInZone(t *testing.T) {
	ctx := context.Background()
	ft := types.NewFieldType(mysql.TypeTimestamp)
	b := buildTable("t").column("id", bigint()).clustered(ic(0)).column("ts", ft)
	b.info.Columns[1].OriginDefaultValue = "2024-01-01 00:00:00"
	tbl := b.table(t)
	txn := newFakeTxn()
	ts := types.NewTime(types.FromDate(2024, 6, 1, 12, 0, 0, 0), mysql.TypeTimestamp, 0)
	h, err := tbl.AddRecord(ctx, txn, row(1, ts), AddOptions{})
	require.NoError(t, err)
	zone := time.FixedZone("", 2*3600)
	got, err := tbl.Reader(txn, nil, zone).Get(ctx, h)
	require.NoError(t, err)
	require.Equal(t, "2024-06-01 14:00:00", got[1].GetMysqlTime().String())
	d, err := localDefault(tbl.defaults[1], zone)
	require.NoError(t, err)
	require.Equal(t, "2024-01-01 02:00:00", d.GetMysqlTime().String())
}
