package sql

import (
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// Cutting any text into words ends, at a character that the scanner does not know as well.
func TestScanEnds(t *testing.T) {
	for _, text := range []string{"a \x00", "\x01", "explain create \x7f index", "DESC CREATE INDEX i ON t (\x1f)"} {
		require.Nil(t, scan(text, 0), "%q", text)
	}
	require.Len(t, scan("EXPLAIN CREATE INDEX i ON t (a)", 0), 9)
	require.Nil(t, scan(strings.Repeat("a ", maxTokens+1), 0))

	r := randtest.Rand(t)
	words := []string{"EXPLAIN ", "CREATE ", "/*!", "/*+ ", "*/", "'", "`", "\"", "@", "@@x", "as of ", "\\", "--", "#", "0x", "\xff\xfe", "x'", "_utf8", ";", "\x00", "1e", ".."}
	for range 20_000 {
		var b strings.Builder
		for range r.IntN(12) {
			if r.IntN(2) == 0 {
				b.WriteString(words[r.IntN(len(words))])
			} else {
				b.WriteByte(byte(r.IntN(256)))
			}
		}
		mode := []mysql.SQLMode{0, mysql.ModeANSIQuotes}[r.IntN(2)]
		require.LessOrEqual(t, len(scan(b.String(), mode)), len(b.String()), "%q", b.String())
	}
}

// Only texts that can be EXPLAIN CREATE INDEX are cut into words.
func TestMayExplainIndex(t *testing.T) {
	for text, may := range map[string]bool{
		"explain Create index i on t (a)": true, "desc CREATE INDEX": true, "DESCRIBE create": true,
		"CREATE INDEX i": false, "EXPLAIN SELECT": false, "": false,
	} {
		require.Equal(t, may, mayExplainIndex(text), text)
	}
}
