package rows

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/sbtest"
)

// BenchmarkRows measures what a row of sysbench's table costs: read and parsed, and encoded as well.
func BenchmarkRows(b *testing.B) {
	var csv, sql strings.Builder
	n := 0
	rows := sbtest.Generator{Rows: 20000, Seed: 1}
	for block := range rows.Blocks() {
		for r := range rows.Block(block) {
			fmt.Fprintf(&csv, "%d,%d,%s,%s\n", r.ID, r.K, r.C, r.Pad)
			fmt.Fprintf(&sql, "INSERT INTO t VALUES (%d,%d,'%s','%s');\n", r.ID, r.K, r.C, r.Pad)
			n++
		}
	}
	create := "create table t (id bigint primary key, k int not null, c char(120) not null, pad char(60) not null, key (k), key (c))"
	for _, format := range []string{"csv", "sql"} {
		text := csv.String()
		if format == "sql" {
			text = sql.String()
		}
		source := statement{create: create, format: format, files: map[string]string{"t." + format: text}}.open(b)
		perRow := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
		}
		b.Run(format+"/parse", func(b *testing.B) {
			for range b.N {
				r, err := source.NewReader(b.Context(), source.Chunks()[0], NewIDs(State{}))
				require.NoError(b, err)
				for {
					if _, err := r.parser.next(); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, r.Close())
			}
			perRow(b)
		})
		b.Run(format+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				r, err := source.NewReader(b.Context(), source.Chunks()[0], NewIDs(State{}))
				require.NoError(b, err)
				for {
					if _, err := r.Next(b.Context()); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, r.Close())
			}
			perRow(b)
		})
	}
}
