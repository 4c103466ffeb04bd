package terminal

import (
	"io"
	"regexp"
	"strings"
)

// number is a number as people read it, perhaps with a unit.
var number = regexp.MustCompile(`^-?[0-9][0-9.,]*(%| ?(B|[KMGTP]iB|s|ms|[KMG]|rows/s|[KMG]/s))?$`)

// Table is a table for people.
type Table struct {
	// Header has the titles of the columns. Cells of a row that are missing are empty.
	Header []string
	Rows   [][]string
}

// Write writes the table, columns of numbers to the right. With columns above 0 the lines are cut to that many.
func (t *Table) Write(w io.Writer, columns int) {
	widths, right := make([]int, len(t.Header)), make([]bool, len(t.Header))
	for i, title := range t.Header {
		widths[i], right[i] = columnsOf(title), true
	}
	lines := [][]string{t.Header}
	filled := make([]bool, len(t.Header))
	for _, row := range t.Rows {
		line := make([]string, len(t.Header))
		for i := range min(len(row), len(line)) {
			line[i] = Clean(row[i])
			widths[i] = max(widths[i], columnsOf(line[i]))
			right[i] = right[i] && (line[i] == "" || number.MatchString(line[i]))
			filled[i] = filled[i] || line[i] != ""
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-columnsOf(cell))
			if i > 0 {
				b.WriteString("  ")
			}
			if right[i] && filled[i] {
				b.WriteString(space + cell)
			} else {
				b.WriteString(cell + space)
			}
		}
		text := strings.TrimRight(b.String(), " ")
		if columns > 0 {
			text = Cut(text, columns)
		}
		writeString(w, text+"\n")
	}
}
