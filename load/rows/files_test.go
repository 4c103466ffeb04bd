package rows

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
)

// A file that is gone, or is another one than when the import began, is an error: when it is opened, and from a rest.
func TestFilesThatChange(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"gone":    os.Remove,
		"longer":  func(path string) error { return os.WriteFile(path, []byte("1\n2\n3\n4\n"), 0o600) },
		"shorter": func(path string) error { return os.WriteFile(path, []byte("1\n"), 0o600) },
	} {
		for _, format := range []string{"csv", "sql", "parquet"} {
			text := "1\n2\n3\n"
			if format == "parquet" {
				text = parquetText(t, 0, 1<<20, struct {
					A int32 `parquet:"name=a, type=INT32"`
				}{1})
			}
			source := statement{create: "create table t (a int)", format: format, files: map[string]string{"t." + format: text}}.open(t)
			require.NoError(t, change(filepath.Join(filepath.Dir(source.c.Path), "t."+format)))
			_, err := source.NewReader(t.Context(), source.Chunks()[0], NewIDs(State{}))
			require.Error(t, err, "%s %s", format, name)
			if name != "gone" {
				require.ErrorIs(t, err, errChanged)
			}
			c := source.Chunks()[0]
			c.Size++
			_, err = source.NewReader(t.Context(), c, NewIDs(State{}))
			require.ErrorIs(t, err, errChanged, "the checkpoint's file had another size")
		}
	}
}

// A reader ends with its context.
func TestReaderEndsWithItsContext(t *testing.T) {
	var text []byte
	for i := range 200000 {
		text = fmt.Appendf(text, "%d\n", i)
	}
	source := statement{create: "create table t (a int)", files: map[string]string{"t.csv": string(text)}}.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := source.NewReader(ctx, source.Chunks()[0], NewIDs(State{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	_, err = r.Next(ctx)
	require.NoError(t, err)
	cancel()
	for err == nil {
		_, err = r.Next(ctx)
	}
	require.ErrorIs(t, err, context.Canceled)
}

// The rows of a query are divided among readers; a wrong one is named by its number.
func TestRowsOfAQuery(t *testing.T) {
	c, info := statement{create: "create table t (a int, b varchar(9))", files: map[string]string{"t.csv": ""}}.controller(t)
	c.DataSourceType = importer.DataSourceTypeQuery
	ch := make(chan importer.QueryRow, 10)
	for i := range int64(6) {
		ch <- importer.QueryRow{ID: i + 1, Data: []types.Datum{types.NewIntDatum(i), types.NewStringDatum("x")}}
	}
	ch <- importer.QueryRow{ID: 7, Data: []types.Datum{types.NewStringDatum("no number"), types.NewStringDatum("x")}}
	close(ch)
	source, err := FromQuery(c, info, ch, 2)
	require.NoError(t, err)
	require.Len(t, source.Chunks(), 2)
	rows, err := readChunks(t, source, NewIDs(State{}))
	require.Equal(t, []string{"0|x", "1|x", "2|x", "3|x", "4|x", "5|x"}, rows)
	var row *RowError
	require.ErrorAs(t, err, &row)
	require.EqualValues(t, 7, row.Place.Line)
}
