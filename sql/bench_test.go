package sql_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const benchRows = 20_000

// newBenchNode returns a node with a sysbench-shaped table.
func newBenchNode(b *testing.B) *node {
	n := newNode(b)
	c := n.conn()
	c.exec("create table sbtest1 (id int primary key auto_increment, k int not null default 0, c char(120) not null default '', pad char(60) not null default '', key k_1 (k))")
	for range benchRows / 500 {
		rows := make([]string, 500)
		for i := range rows {
			rows[i] = fmt.Sprintf("(%d, '%s', '%s')", rand.IntN(benchRows), strings.Repeat("c-", 59), strings.Repeat("p-", 29))
		}
		c.exec("insert into sbtest1 (k, c, pad) values " + strings.Join(rows, ","))
	}
	b.ResetTimer()
	b.ReportAllocs()
	return n
}

func BenchmarkPointSelect(b *testing.B) {
	b.Run("engine", func(b *testing.B) {
		n := newBenchNode(b)
		s := n.session()
		for range b.N {
			_, rows, err := n.engine.Query(context.Background(), s, fmt.Sprintf("SELECT c FROM sbtest1 WHERE id=%d", 1+rand.IntN(benchRows)))
			require.NoError(b, err)
			require.Len(b, rows, 1)
		}
	})
	for _, prepared := range []bool{false, true} {
		b.Run(fmt.Sprintf("wire/prepared=%t", prepared), func(b *testing.B) {
			n := newBenchNode(b)
			c := n.connWith(fmt.Sprintf("interpolateParams=%t", !prepared))
			stmt, err := c.PrepareContext(context.Background(), "SELECT c FROM sbtest1 WHERE id=?")
			require.NoError(b, err)
			defer stmt.Close()
			for range b.N {
				var got string
				if prepared {
					err = stmt.QueryRow(1 + rand.IntN(benchRows)).Scan(&got)
				} else {
					err = c.QueryRowContext(context.Background(), "SELECT c FROM sbtest1 WHERE id=?", 1+rand.IntN(benchRows)).Scan(&got)
				}
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkUpdateIndex(b *testing.B) {
	n := newBenchNode(b)
	c := n.connWith("interpolateParams=true")
	for range b.N {
		c.exec("UPDATE sbtest1 SET k=k+1 WHERE id=?", 1+rand.IntN(benchRows))
	}
}

func BenchmarkRangeScan(b *testing.B) {
	n := newBenchNode(b)
	s := n.session()
	for range b.N {
		from := rand.IntN(benchRows - 1000)
		_, rows, err := n.engine.Query(context.Background(), s, fmt.Sprintf("SELECT c FROM sbtest1 WHERE id BETWEEN %d AND %d", from, from+999))
		require.NoError(b, err)
		require.NotEmpty(b, rows)
	}
}
