package rows

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/load/conflict"
)

// Rows that one goroutine adds are read by others, chunk after chunk, once and in order, with IDs that count.
func TestFeed(t *testing.T) {
	r := randtest.Rand(t)
	for _, create := range []string{
		"CREATE TABLE t (a INT, s VARCHAR(20), KEY a (a))",
		"CREATE TABLE t (a INT PRIMARY KEY, s VARCHAR(20), KEY s (s))",
		"CREATE TABLE t (a INT, s VARCHAR(20), UNIQUE KEY a (a), CHECK (s <> 'row 7'))",
	} {
		c, info := statement{create: create, files: map[string]string{"f.csv": ""}}.controller(t)
		occupied := int64(0)
		feed := NewFeed(conflict.Last)
		source, err := FromFeed(c, info, feed, FeedDisk{Dir: t.TempDir(), Occupy: func(n int64) error { occupied += n; return nil }})
		require.NoError(t, err)
		rows, distinct := 1+r.IntN(5000), 1+r.IntN(5000)
		ctx := context.Background()
		ended := make(chan error, 1)
		var result conflict.Result
		go func() {
			for n := range rows {
				if err := feed.Add(ctx, []types.Datum{types.NewIntDatum(int64(n % distinct)), types.NewStringDatum(fmt.Sprintf("row %d", n))}); err != nil {
					ended <- err
					return
				}
			}
			var err error
			result, err = feed.End(ctx)
			ended <- err
		}()
		ids := NewIDs(State{})
		chunk, read := source.Chunks()[0], 0
		seen := make(map[string]bool)
		for !chunk.Done {
			reader, err := source.NewReader(ctx, chunk, ids)
			require.NoError(t, err)
			for n := r.IntN(2000); n > 0; n-- {
				pairs, err := reader.Next(ctx)
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				require.Len(t, pairs, 2, "a row without one of its entries")
				for _, p := range pairs {
					require.False(t, seen[string(p.Key)], "a key of two rows")
					seen[string(p.Key)] = true
				}
				read++
			}
			chunk = reader.Rest()
			require.NoError(t, reader.Close())
		}
		require.NoError(t, <-ended)
		want := rows
		if hasUniqueKeys(info) {
			want = min(rows, distinct)
			if len(info.Constraints) > 0 && rows > 7 && 7+distinct >= rows {
				want-- // row 7 replaces the row of its key, if there is one, and is none itself
			}
		}
		require.Equal(t, want, read, "%s: %d rows with %d keys", create, rows, distinct)
		require.GreaterOrEqual(t, result.Copied, int64(want))
		require.NoError(t, feed.Close())
		require.Zero(t, occupied)
		if info.GetPkColInfo() == nil {
			require.GreaterOrEqual(t, ids.State().RowID, int64(read))
		}
	}
}

// A feed whose import is over ends.
func TestFeedEndsWithItsContext(t *testing.T) {
	c, info := statement{create: "CREATE TABLE t (a INT)", files: map[string]string{"f.csv": ""}}.controller(t)
	feed := NewFeed(conflict.First)
	source, err := FromFeed(c, info, feed, FeedDisk{Dir: t.TempDir(), Occupy: func(int64) error { return nil }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	reader, err := source.NewReader(ctx, source.Chunks()[0], NewIDs(State{}))
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			err = feed.Add(ctx, []types.Datum{types.NewIntDatum(1)})
		}
		ended <- err
	}()
	_, err = reader.Next(ctx)
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	for err == nil {
		_, err = reader.Next(ctx)
	}
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, reader.Close())
	require.NoError(t, feed.Close())
}
