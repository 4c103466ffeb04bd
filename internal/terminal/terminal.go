package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// DefaultWidth is the number of columns of a terminal that does not say it.
const DefaultWidth = 80

// Is reports whether w is a terminal.
func Is(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Moves reports whether w is a terminal on which a line can be drawn again in place.
func Moves(w any) bool { return Is(w) && os.Getenv("TERM") != "dumb" }

// Width returns the columns of the terminal w: what $COLUMNS says, else what the terminal says, else DefaultWidth.
func Width(w any) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return DefaultWidth
}

// Clean returns text in one line, with control characters escaped and bytes that are no UTF-8 as \x..: what a client has named
// a table must not be able to command the terminal of another one.
func Clean(text string) string {
	return clean(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// CleanLines is Clean, but leaves the ends of lines and tabs.
func CleanLines(text string) string {
	return clean(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' })
}

func clean(text string, unwanted func(rune) bool) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, unwanted) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n' || r == '\t' || r == '\r':
			if unwanted(r) {
				b.WriteByte(' ')
			} else {
				b.WriteRune(r)
			}
		case unwanted(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// Cut returns text in at most columns, with dots at its end if it is longer.
func Cut(text string, columns int) string {
	if columns <= 0 {
		return ""
	}
	return runewidth.Truncate(text, columns, strings.Repeat(".", min(columns, 2)))
}

// columnsOf returns the columns that text takes.
func columnsOf(text string) int { return runewidth.StringWidth(text) }

// writeString writes what is for people: its errors end no operation, and a reader that has gone is noticed by those who care for it.
func writeString(w io.Writer, text string) { _, _ = io.WriteString(w, text) }
