package sstimport

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"
	pdhttp "github.com/tikv/pd/client/http"

	"fastddl/kv"
)

// fixture is an importer into a cluster.
type fixture struct {
	*cluster
	im   *Importer
	dir  string
	at   uint64 // the version of all units
	want map[string]string
}

func start(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	c := newCluster(t)
	opts := c.options()
	if change != nil {
		change(&opts)
	}
	im, err := New(opts)
	require.NoError(t, err)
	f := &fixture{cluster: c, im: im, dir: t.TempDir(), at: c.version(), want: make(map[string]string)}
	t.Cleanup(func() { require.NoError(t, im.Close()) })
	return f
}

func key(i int) string { return fmt.Sprintf("k%06d", i) }

// unit writes a unit of the keys from one number to before another.
func (f *fixture) unit(from, to, valueBytes int) kv.ImportUnit {
	f.t.Helper()
	return f.unitWith(kv.ImportOptions{}, from, to, valueBytes)
}

func (f *fixture) unitWith(opts kv.ImportOptions, from, to, valueBytes int) kv.ImportUnit {
	f.t.Helper()
	opts.Dir, opts.Version = f.dir, f.at
	w, err := f.im.NewWriter(f.t.Context(), opts)
	require.NoError(f.t, err)
	for i := from; i < to; i++ {
		value := fmt.Sprintf("%0*d", max(valueBytes, 1), i)
		require.NoError(f.t, w.Add([]byte(key(i)), []byte(value)))
		f.want[key(i)] = value
	}
	u, err := w.Finish(f.t.Context())
	require.NoError(f.t, err)
	return u
}

// files is the number of files that are left.
func (f *fixture) files() int {
	f.t.Helper()
	entries, err := os.ReadDir(f.dir)
	require.NoError(f.t, err)
	return len(entries)
}

// requireDone checks that all units have been imported and left nothing.
func (f *fixture) requireDone() {
	f.t.Helper()
	f.requireData(f.at, f.want)
	require.Zero(f.t, f.files())
	require.Empty(f.t, f.rules)
}

func TestImport(t *testing.T) {
	f := start(t, nil)
	for i := range 5 {
		f.split(key(i * 700))
	}
	units := []kv.ImportUnit{f.unit(2000, 3000, 100), f.unit(0, 1000, 1), f.unit(1500, 1501, 10)}
	require.Equal(t, 3, f.files())
	require.Equal(t, key(2000), string(units[0].Range().Start))
	require.True(t, units[0].Range().Contains([]byte(key(2999))))
	require.False(t, units[0].Range().Contains(kv.NextKey([]byte(key(2999)))))
	require.Equal(t, 1000, units[0].Count())
	require.Positive(t, units[0].Size())

	require.NoError(t, f.im.Import(t.Context(), units))
	f.requireDone()
	require.Equal(t, 5*3, f.count(callWrite), "each of five regions is sent one file, to each of three peers")
	for _, u := range units {
		require.NoError(t, u.Discard(), "discarding a consumed unit")
	}
	before := len(f.calls)
	require.NoError(t, f.im.Import(t.Context(), units), "importing consumed units")
	require.Len(t, f.calls, before)
	require.Empty(t, f.splits, "a small import splits nothing")
	require.Zero(t, f.setLabels, "nor does it keep PD from anything")
}

func TestImportTwice(t *testing.T) {
	f := start(t, nil)
	for range 2 {
		require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 100, 10)}))
	}
	f.requireDone()
}

// keyspaceCodec is that of a keyspace, as tikv.NewCodecV2 makes it.
type keyspaceCodec struct{ prefix string }

func (keyspaceCodec) GetAPIVersion() kvrpcpb.APIVersion { return kvrpcpb.APIVersion_V2 }

func (c keyspaceCodec) EncodeKey(key []byte) []byte { return append([]byte(c.prefix), key...) }

func (c keyspaceCodec) EncodeRegionKey(key []byte) []byte {
	return codec.EncodeBytes(nil, c.EncodeKey(key))
}

func (c keyspaceCodec) EncodeRegionRange(start, end []byte) (from, to []byte) {
	if len(end) == 0 { // that of the next keyspace
		return c.EncodeRegionKey(start), codec.EncodeBytes(nil, kv.PrefixNext([]byte(c.prefix)))
	}
	return c.EncodeRegionKey(start), c.EncodeRegionKey(end)
}

func TestKeyspace(t *testing.T) {
	f := start(t, func(o *Options) { large(o); o.Codec = keyspaceCodec{"x123"} })
	f.keyspace = "x123"
	f.split(key(500))
	var rule *pdhttp.LabelRule
	f.setFault(func(c call) *fault {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, r := range f.rules {
			rule = r
		}
		return nil
	})
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 2000, 100)}))
	f.requireDone()
	require.Equal(t, []map[string]string{{
		"start_key": hex.EncodeToString(codec.EncodeBytes(nil, []byte("x123"))),
		"end_key":   hex.EncodeToString(codec.EncodeBytes(nil, []byte("x124"))),
	}}, rule.Data)
}

// TestPartlyImportedUnitIsKept: until all of it is imported.
func TestPartlyImportedUnitIsKept(t *testing.T) {
	f := start(t, func(o *Options) { o.MaxAttempts, o.StoreStreams = 1, 1 }) // one after the other
	f.split(key(50))
	f.setFault(func(c call) *fault {
		if c.kind == callIngest && c.nth == 2 {
			return &fault{err: unavailable}
		}
		return nil
	})
	u := f.unit(0, 100, 10)
	require.Error(t, f.im.Import(t.Context(), []kv.ImportUnit{u}))
	require.Len(t, f.data, 50, "the other half")
	require.Equal(t, 1, f.files())
	f.setFault(nil)
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{u}))
	f.requireDone()
}

func TestBadUseIsRefused(t *testing.T) {
	f := start(t, nil)
	ctx := t.Context()
	writer := func() kv.ImportWriter {
		w, err := f.im.NewWriter(ctx, kv.ImportOptions{Dir: f.dir, Version: f.at})
		require.NoError(t, err)
		return w
	}
	_, err := f.im.NewWriter(ctx, kv.ImportOptions{Dir: f.dir})
	require.ErrorIs(t, err, errVersion)
	_, err = f.im.NewWriter(ctx, kv.ImportOptions{Dir: f.dir + "/none", Version: f.at})
	require.ErrorIs(t, err, os.ErrNotExist)

	w := writer()
	require.NoError(t, w.Add([]byte("b"), []byte("1")))
	require.ErrorIs(t, w.Add([]byte("b"), []byte("1")), errOrder)
	require.ErrorIs(t, w.Add([]byte("a"), []byte("1")), errOrder)
	require.ErrorIs(t, w.Add([]byte("c"), nil), kv.ErrEmptyValue)
	require.ErrorIs(t, w.Add(make([]byte, defaultMaxKeyBytes+1), []byte("1")), errTooLarge)
	require.ErrorIs(t, w.Add([]byte("c"), make([]byte, defaultMaxEntryBytes)), errTooLarge)
	require.NoError(t, w.Abort())
	require.NoError(t, w.Abort())
	require.ErrorIs(t, w.Add([]byte("c"), []byte("1")), errDone)
	_, err = w.Finish(ctx)
	require.ErrorIs(t, err, errDone)
	_, err = writer().Finish(ctx)
	require.ErrorIs(t, err, errEmpty)
	require.Zero(t, f.files())

	one, two := f.unit(0, 10, 1), f.unit(9, 20, 1)
	require.ErrorIs(t, f.im.Import(ctx, []kv.ImportUnit{one, two}), errOverlap)
	require.ErrorIs(t, f.im.Import(ctx, []kv.ImportUnit{one, one}), errOverlap)
	require.NoError(t, one.Discard())
	require.NoError(t, one.Discard())
	require.ErrorIs(t, f.im.Import(ctx, []kv.ImportUnit{one, two}), errDiscarded)
	other, err := New(f.options())
	require.NoError(t, err)
	require.ErrorIs(t, other.Import(ctx, []kv.ImportUnit{two}), errForeign)
	require.NoError(t, other.Close())
	require.ErrorIs(t, other.Import(ctx, nil), kv.ErrClosed)
	_, err = other.NewWriter(ctx, kv.ImportOptions{Dir: f.dir, Version: f.at})
	require.ErrorIs(t, err, kv.ErrClosed)
	require.NoError(t, two.Discard())
	require.NoError(t, f.im.Import(ctx, nil))

	f.at = 1 << 60
	future := f.unit(0, 1, 1)
	require.ErrorIs(t, f.im.Import(ctx, []kv.ImportUnit{future}), errVersion)
	require.NoError(t, future.Discard())
	require.Zero(t, f.files())
	require.Empty(t, f.data)
}

func TestOptionsListEveryProblem(t *testing.T) {
	_, err := New(Options{SplitBytes: -1, MaxAttempts: -1, LabelTTL: -1})
	for _, text := range []string{"PD", "SplitBytes", "MaxAttempts", "LabelTTL"} {
		require.ErrorContains(t, err, text)
	}
}

func TestCancelledImport(t *testing.T) {
	f := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	u := f.unit(0, 10, 1)
	cancel()
	require.ErrorIs(t, f.im.Import(ctx, []kv.ImportUnit{u}), context.Canceled)
	require.Equal(t, 1, f.files(), "it is not consumed")
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{u}))
	f.requireDone()
}
