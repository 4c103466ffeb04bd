package terminal

import (
	"fmt"
	"io"
	"strings"
)

const (
	// maxBar and minBar are the cells of a bar. A long note is cut for it. A line of less than barColumns has none.
	maxBar, minBar, barColumns = 30, 10, 40

	// margin are the last columns, which stay free: the terminal shows ^C there, and wraps a line that fills all of them.
	margin = 1 + len("^C")

	eraseLine = "\r\x1b[K"
)

// Bar is one line of progress on a terminal, drawn again in place. It is not safe for concurrent use.
type Bar struct {
	out   io.Writer
	width func() int
	shown bool
}

// NewBar returns a bar on the terminal out, of any width that this has when the bar is drawn.
func NewBar(out io.Writer) *Bar { return &Bar{out: out, width: func() int { return Width(out) }} }

// NewBarOf returns a bar on a terminal that has a number of columns.
func NewBarOf(out io.Writer, columns int) *Bar {
	return &Bar{out: out, width: func() int { return columns }}
}

// Draw shows how much is done, from 0 to 1, behind a title and before a note. The note is cut where there is no room.
func (b *Bar) Draw(done float64, title, note string) {
	writeString(b.out, eraseLine+barLine(b.width()-margin, done, Clean(title), Clean(note)))
	b.shown = true
}

// Say shows a line without a bar in its place.
func (b *Bar) Say(text string) {
	writeString(b.out, eraseLine+Cut(Clean(text), b.width()-margin))
	b.shown = true
}

// Clear removes the line.
func (b *Bar) Clear() {
	if b.shown {
		writeString(b.out, eraseLine)
		b.shown = false
	}
}

// End leaves the line as it is, and goes to the next.
func (b *Bar) End() {
	if b.shown {
		writeString(b.out, "\n")
		b.shown = false
	}
}

// barLine returns a line of at most columns.
func barLine(columns int, done float64, title, note string) string {
	done = max(0, min(1, done))
	title = fmt.Sprintf("%s %3d%%", title, int(done*100))
	free := columns - columnsOf(title) - len(" [] ")
	if columns < barColumns || free < minBar {
		return Cut(title+" "+note, columns)
	}
	note = Cut(note, free-minBar)
	cells := min(maxBar, free-columnsOf(note))
	full := int(done * float64(cells))
	bar := strings.Repeat("=", full)
	if full < cells {
		bar += ">" + strings.Repeat(" ", cells-full-1)
	}
	return fmt.Sprintf("%s [%s] %s", title, bar, note)
}
