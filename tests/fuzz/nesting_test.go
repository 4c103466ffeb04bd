package fuzz

import (
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// deep are forms that nest or chain as deep as one likes.
var deep = map[string]func(n int) string{
	"parentheses": func(n int) string { return "SELECT " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) },
	"sum":         func(n int) string { return "SELECT 1" + strings.Repeat("+1", n) },
	"not":         func(n int) string { return "SELECT " + strings.Repeat("NOT ", n) + "1" },
	"calls":       func(n int) string { return "SELECT " + strings.Repeat("ABS(", n) + "1" + strings.Repeat(")", n) },
	"and":         func(n int) string { return "SELECT 1" + strings.Repeat(" AND 1=1", n) },
	"case": func(n int) string {
		return "SELECT " + strings.Repeat("CASE WHEN 1 THEN ", n) + "1" + strings.Repeat(" END", n)
	},
	"tables": func(n int) string {
		return "SELECT * FROM " + strings.Repeat("(SELECT * FROM ", n) + "(SELECT 1) x" + strings.Repeat(") x", n)
	},
	"union": func(n int) string { return "SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", n/10) },
	"json": func(n int) string {
		return "SELECT JSON_DEPTH('" + strings.Repeat("[", n) + strings.Repeat("]", n) + "')"
	},
	"path": func(n int) string { return "SELECT JSON_EXTRACT('[1]', '$" + strings.Repeat("[0]", n) + "')" },
	"regexp": func(n int) string {
		return "SELECT 'a' REGEXP '" + strings.Repeat("(", n) + "a" + strings.Repeat(")", n) + "'"
	},
	"scalar subqueries": func(n int) string {
		n = min(n, 300) // they are slow: the square of their number
		return "SELECT " + strings.Repeat("(SELECT ", n) + "1" + strings.Repeat(")", n)
	},
}

// TestDeepNesting: a statement may be refused for its depth, but must not end the
// process by the size of a stack.
func TestDeepNesting(t *testing.T) {
	randtest.SkipShort(t)
	tg := startTarget(t, memoryLimit)
	t.Run("200000 tables", func(t *testing.T) {
		t.Skip("TiDB's planner recurses over nested tables until Go's limit of a stack, 1 GB, and ends the process")
	})
	for name, form := range deep {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{100, 1000, 10_000, 50_000} {
				conn := tg.connect("")
				start := time.Now()
				err := drain(conn, form(n))
				_ = conn.Close()
				t.Logf("%d: %s, %.200v", n, time.Since(start).Round(time.Millisecond), err)
				// Nested tables cost the square of their number: 50,000 took four minutes beside fifty programs.
				require.Less(t, time.Since(start), 5*hangTimeout)
				require.False(t, tg.Exited())
				if err != nil {
					var e *mysql.MySQLError
					require.ErrorAs(t, err, &e)
				}
			}
		})
	}
	tg.stop()
}
