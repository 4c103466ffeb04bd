package lightning_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/lightning"
)

// shortStore has files that lack the last pair written to them.
type shortStore struct{ *store }

func (s shortStore) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	w, err := s.store.NewImportWriter(ctx, opts)
	return &shortWriter{ImportWriter: w}, err
}

type shortWriter struct {
	kv.ImportWriter
	last []byte // the key that is not written yet
}

func (w *shortWriter) Add(key, value []byte) error {
	if w.last != nil {
		if err := w.ImportWriter.Add(w.last, value); err != nil {
			return err
		}
	}
	w.last = append([]byte(nil), key...)
	return nil
}

// TestFileWithFewerPairsIsNotImported: a file that has not all pairs that were written to it is removed and reported.
func TestFileWithFewerPairsIsNotImported(t *testing.T) {
	f := newFixture(t)
	f.opts.Store = shortStore{f.store}
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	err = write(t.Context(), im, 0, 100)
	var count *lightning.PairCountError
	require.ErrorAs(t, err, &count)
	require.Equal(t, lightning.PairCountError{Written: 100, InFiles: 99}, *count)
	require.NoError(t, im.Close())
	require.Zero(t, f.store.imports)
	require.Zero(t, f.files(t))
}
