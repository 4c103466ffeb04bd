package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/lightning/common"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/kv"
	"fastddl/load/rows"
)

// fakeSource has rows that are encoded already, in files of some rows each. It is a source without generated keys.
type fakeSource struct {
	files  [][]fakeRow
	chunk  int                              // rows of a chunk
	onNext func(file string, i int64) error // before a row
	unread bool                             // duplicates cannot be looked up
}

type fakeRow []common.KvPair

func (s *fakeSource) Chunks() (chunks []rows.Chunk) {
	for i, f := range s.files {
		for at := 0; at == 0 || at < len(f); at += s.chunk {
			chunks = append(chunks, rows.Chunk{File: fmt.Sprint(i), Size: int64(len(f)), Start: int64(at), End: int64(min(len(f), at+s.chunk))})
		}
	}
	return chunks
}

func (s *fakeSource) Bytes() (n int64) {
	for _, f := range s.files {
		n += int64(len(f))
	}
	return n
}

func (s *fakeSource) open(_ context.Context, c rows.Chunk, _ *rows.IDs) (reader, error) {
	var i int
	if _, err := fmt.Sscan(c.File, &i); err != nil {
		return nil, err
	}
	return &fakeReader{s: s, c: c, rows: s.files[i]}, nil
}

func (s *fakeSource) Places(_ context.Context, keys [][]byte, limit int) (map[string][]rows.Place, error) {
	if s.unread {
		return nil, io.ErrUnexpectedEOF
	}
	places := make(map[string][]rows.Place)
	for i, f := range s.files {
		for k, row := range f {
			for _, p := range row {
				if limit > 0 && slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, p.Key) }) {
					places[string(p.Key)] = append(places[string(p.Key)], rows.Place{File: fmt.Sprint(i), Line: int64(k + 1), Offset: int64(k)})
					limit--
				}
			}
		}
	}
	return places, nil
}

// fakeReader hands out pairs in one buffer, as a reader may.
type fakeReader struct {
	s    *fakeSource
	c    rows.Chunk
	rows []fakeRow
	read int64
	buf  []byte
	out  []common.KvPair
}

func (r *fakeReader) Next(ctx context.Context) ([]common.KvPair, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.c.Start >= r.c.End {
		r.c.Done = true
		return nil, io.EOF
	}
	at := r.c.Start
	r.c.Start++
	r.read++
	if r.s.onNext != nil {
		if err := r.s.onNext(r.c.File, at); err != nil {
			return nil, err
		}
	}
	r.buf, r.out = r.buf[:0], r.out[:0]
	for _, p := range r.rows[at] {
		n := len(r.buf)
		r.buf = append(append(r.buf, p.Key...), p.Val...)
		r.out = append(r.out, common.KvPair{Key: r.buf[n:][:len(p.Key)], Val: r.buf[n+len(p.Key):]})
	}
	return r.out, nil
}

func (r *fakeReader) Rest() rows.Chunk { return r.c }

func (r *fakeReader) Place() rows.Place {
	return rows.Place{File: r.c.File, Line: r.c.Start, Offset: r.c.Start - 1}
}

func (r *fakeReader) Read() int64 { return r.read }

func (r *fakeReader) Close() error { return nil }

// fixture is a table to load, and a store.
type fixture struct {
	*backfilltest.Fixture
	source *fakeSource
	spec   Spec
	opts   Options
	saved  []byte // the last checkpoint
	long   int    // how many bytes some columns have at least
}

// newFixture returns a table like sysbench's with an index on k and a unique one on k and c, and n random rows in some files.
func newFixture(t testing.TB, r *rand.Rand, partitions, n int) *fixture {
	return newFixtureOn(t, nil, r, partitions, n)
}

// newFixtureOn is newFixture with a store on a file system; nil is the operating system's.
func newFixtureOn(t testing.TB, fs vfs.FS, r *rand.Rand, partitions, n int) *fixture {
	f := emptyFixtureOn(t, fs, r, partitions)
	f.addRows(r, n)
	return f
}

// addRows adds random rows, of which chunks have some.
func (f *fixture) addRows(r *rand.Rand, n int) {
	f.source.chunk = 1 + r.IntN(n+100)
	for range n {
		f.addRow(r)
	}
}

// emptyFixtureOn is newFixtureOn without rows.
func emptyFixtureOn(t testing.TB, fs vfs.FS, r *rand.Rand, partitions int) *fixture {
	table, kinds := backfilltest.PlainTable()
	table.Name = pmodel.NewCIStr("t")
	for i, c := range table.Columns {
		c.Name = pmodel.NewCIStr(fmt.Sprintf("c%d", i))
	}
	for i, idx := range []*model.IndexInfo{backfilltest.IndexOn(1, false, 1), backfilltest.IndexOn(2, true, 0, 1, 2)} {
		idx.Name = pmodel.NewCIStr(fmt.Sprintf("i%d", i+1))
		idx.State = model.StatePublic
		table.Indices = append(table.Indices, idx)
	}
	if partitions > 0 {
		table.Partition = &model.PartitionInfo{Enable: true}
		for i := range partitions {
			table.Partition.Definitions = append(table.Partition.Definitions, model.PartitionDefinition{ID: table.ID + 1 + int64(i)})
		}
	}
	f := &fixture{Fixture: backfilltest.NewFixtureOn(t, fs, table, kinds), source: new(fakeSource)}
	f.source.files = make([][]fakeRow, 1+r.IntN(5))
	f.spec = Spec{JobID: 7, Source: new(rows.Source), Table: table}
	f.opts = Options{
		Store: f.Store, TempDir: f.Temp,
		SaveCheckpoint: func(_ context.Context, data []byte) error { f.saved = bytes.Clone(data); return nil },
	}
	return f
}

// addRow adds a random row with a new handle to one of the files.
func (f *fixture) addRow(r *rand.Rand) {
	f.Next++
	at := r.IntN(len(f.source.files))
	f.source.files[at] = append(f.source.files[at], f.randomRow(r, f.Next*7%1000003))
}

func (f *fixture) randomRow(r *rand.Rand, handle int64) fakeRow {
	values := backfilltest.RandomRow(r, f.Table, f.Kinds)
	values[0].SetInt64(handle)
	for i := range values[2:] {
		d := &values[2+i]
		if d.IsNull() {
			continue
		}
		text := make([]byte, f.long, f.long+d.Length())
		for i := range text {
			text[i] = 'a' + byte(r.IntN(26))
		}
		d.SetString(string(append(text, d.GetBytes()...)), d.Collation())
	}
	h := backfilltest.RowHandle(f.T, f.Table, values, handle)
	physical := *f.Table
	if p := f.Table.Partition; p != nil {
		physical.ID = p.Definitions[r.IntN(len(p.Definitions))].ID
		physical.Partition = nil
	}
	row := fakeRow{{Key: tablecodec.EncodeRowKeyWithHandle(physical.ID, h), Val: f.EncodeRow(values)}}
	for _, idx := range f.Table.Indices {
		key, value, _ := backfilltest.LibraryEntry(f.T, &physical, idx, values, h)
		row = append(row, common.KvPair{Key: key, Val: value})
	}
	return row
}

// run runs the load from the last checkpoint.
func (f *fixture) run(ctx context.Context) (Result, error) {
	spec := f.spec
	spec.Checkpoint = f.saved
	return run(ctx, f.opts, spec, f.source)
}

// want is what the store has when all rows are loaded.
func (f *fixture) want() map[string]string {
	want := make(map[string]string)
	for _, file := range f.source.files {
		for _, row := range file {
			for _, p := range row {
				want[string(p.Key)] = string(p.Val)
			}
		}
	}
	return want
}

// stored is what the store has of the table.
func (f *fixture) stored() map[string]string {
	snap, err := f.Store.Snapshot(f.Ctx, f.TS())
	require.NoError(f.T, err)
	defer snap.Close()
	got := make(map[string]string)
	var version uint64
	for _, r := range newLayout(f.Table).whole() {
		iter, err := snap.Iter(r)
		require.NoError(f.T, err)
		for iter.Valid() {
			got[string(iter.Key())] = string(iter.Value())
			versioned, ok := iter.(kv.VersionedIterator)
			require.True(f.T, ok)
			if version == 0 {
				version = versioned.TS()
			}
			require.Equal(f.T, version, versioned.TS(), "a transaction would read some of the rows")
			require.NoError(f.T, iter.Next())
		}
		require.NoError(f.T, iter.Close())
	}
	return got
}

// requireLoaded checks a load that has succeeded.
func (f *fixture) requireLoaded(result Result) {
	f.T.Helper()
	n := int64(0)
	for _, file := range f.source.files {
		n += int64(len(file))
	}
	require.Equal(f.T, n, result.Rows)
	require.Equal(f.T, n*int64(len(f.Table.Indices)), result.Entries)
	backfilltest.RequireEntries(f.T, f.want(), f.stored(), "loaded table")
	of := int64(0)
	for _, rows := range result.RowsOf {
		of += rows
	}
	require.Equal(f.T, n, of)
	f.RequireNoTempFiles()
}

// decodeHandle returns the integer handle of a record key.
func decodeHandle(key []byte) (int64, error) {
	h, err := tablecodec.DecodeRowKey(key)
	if err != nil {
		return 0, err
	}
	return h.IntValue(), nil
}
