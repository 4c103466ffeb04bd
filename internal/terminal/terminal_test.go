package terminal_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/terminal"
)

func TestBarShowsProgressInPlace(t *testing.T) {
	var out bytes.Buffer
	bar := terminal.NewBarOf(&out, 80)
	bar.Draw(0.5, "scan", "1.2M rows/s, ETA 3 s")
	require.Equal(t, "\r\x1b[Kscan  50% [===============>              ] 1.2M rows/s, ETA 3 s", out.String())
	out.Reset()
	bar.Draw(0.5, "scan", strings.Repeat("waits ", 20))
	require.Regexp(t, `scan  50% \[=====>    \] (waits )+w?a?i?t?\.\.$`, out.String(), "a long note leaves a bar")
	out.Reset()
	bar.Draw(1, "scan", "done")
	bar.End()
	require.Equal(t, "\r\x1b[Kscan 100% [==============================] done\n", out.String())
}

// TestBarTakesOneLine: at any width and with any text, a line has less columns than the terminal.
func TestBarTakesOneLine(t *testing.T) {
	rng := randtest.Rand(t)
	words := []string{"scan", "12,345 rows", "表", "é", "\n", "\x1b[2J", "waits for metadata lock, held by 1 transaction", "\xff"}
	for range 2000 {
		var text [2]string
		for i := range text {
			for range rng.IntN(8) {
				text[i] += words[rng.IntN(len(words))] + " "
			}
		}
		width := 1 + rng.IntN(120)
		var out bytes.Buffer
		terminal.NewBarOf(&out, width).Draw(rng.Float64()*1.4-0.2, text[0], text[1])
		line, ok := strings.CutPrefix(out.String(), "\r\x1b[K")
		require.True(t, ok)
		require.NotContains(t, line, "\n")
		require.NotContains(t, line, "\x1b")
		require.LessOrEqual(t, runewidth.StringWidth(line), max(0, width-3), "%q", line)
	}
}

// TestServersTextCommandsNoTerminal: names and messages are those of other clients.
func TestServersTextCommandsNoTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain é 表":             "plain é 表",
		"a\nb\tc":               "a b c",
		"\x1b]52;c;aGk=\x07":    `\x1b]52;c;aGk=\a`,
		"\u202egnp.exe\u009b2J": `\u202egnp.exe\u009b2J`,
		"\xff\x00":              `\xff\x00`,
	} {
		require.Equal(t, want, terminal.Clean(text))
	}
	require.Equal(t, "a\nb\\x1b", terminal.CleanLines("a\nb\x1b"))
}

func TestTablesAlign(t *testing.T) {
	var out bytes.Buffer
	table := terminal.Table{Header: []string{"JOB", "TABLE", "DONE"}, Rows: [][]string{{"7", "shop.orders", "5%"}, {"112", "a\x1bb", "99.5%"}, {"113", "表"}}}
	table.Write(&out, 0)
	require.Equal(t, "JOB  TABLE         DONE\n  7  shop.orders     5%\n112  a\\x1bb       99.5%\n113  表\n", out.String())
	out.Reset()
	table.Write(&out, 10)
	require.Equal(t, "JOB  TAB..\n  7  sho..\n112  a\\x..\n113  表\n", out.String())
}
