package dump

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"fastddl/internal/terminal"
)

const (
	barEvery   = 500 * time.Millisecond
	plainEvery = 5 * time.Second
	// shownTables is how many tables a line of progress names.
	shownTables = 3
)

// meter shows how far a load is: a line for each table that is loaded, and for the whole a bar on a terminal or a line now
// and then.
type meter struct {
	out io.Writer
	bar *terminal.Bar // nil if out is no terminal

	mu sync.Mutex
	// total and bytes are those of the data of all tables, and of what is done.
	total, bytes, rows int64
	tables, ended      int
	active             map[Name]*measured
}

// measured is a table that is being loaded.
type measured struct {
	began        time.Time
	way          Way
	bytes, total int64
	// rows and phase are what the server says of its import.
	rows  int64
	phase string
}

func newMeter(out io.Writer, moves bool) *meter {
	m := &meter{out: out, active: make(map[Name]*measured)}
	if moves {
		m.bar = terminal.NewBar(out)
	}
	return m
}

// say prints a line; the output is for people, and its errors end no load.
func (m *meter) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.print(fmt.Sprintf(format, args...))
}

func (m *meter) print(line string) {
	if m.bar != nil {
		m.bar.Clear()
	}
	_, _ = fmt.Fprintln(m.out, line)
}

// begin sets the tables that will be loaded.
func (m *meter) begin(tables []*Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tables = len(tables)
	for _, t := range tables {
		m.total += t.Bytes()
	}
}

func (m *meter) start(t *Table, way Way) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active[t.Name] = &measured{began: time.Now(), way: way, total: tableBytes(t)}
}

// tableBytes is a table's share of the whole. A spooled table has both files and a section, of one size.
func tableBytes(t *Table) int64 {
	if t.section.bytes > 0 {
		return t.section.bytes
	}
	return t.Bytes()
}

// add notes bytes of a table that are done.
func (m *meter) add(t *Table, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.active[t.Name]; a != nil {
		bytes = min(bytes, a.total-a.bytes)
		a.bytes += bytes
		m.bytes += bytes
	}
}

// done notes that a table is loaded.
func (m *meter) done(t *Table, rows int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.active[t.Name]
	if a == nil {
		return
	}
	delete(m.active, t.Name)
	m.bytes += a.total - a.bytes
	m.rows += rows
	m.ended++
	m.print(fmt.Sprintf("table %s: %d rows, %s in %.1f s", t.Name, rows, size(a.total), time.Since(a.began).Seconds()))
}

func (m *meter) loadedRows() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows
}

// watch shows the progress of the whole until stop is called, which waits.
func (m *meter) watch(ctx context.Context, db queryer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	every := plainEvery
	if m.bar != nil {
		every = barEvery
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				m.ask(ctx, db)
				m.show()
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		if m.bar != nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.bar.Clear()
		}
	}
}

// ask asks the server about its imports. An error shows nothing: the import itself has it too.
func (m *meter) ask(ctx context.Context, db queryer) {
	m.mu.Lock()
	imports := false
	for _, a := range m.active {
		imports = imports || a.way == WayImport
	}
	m.mu.Unlock()
	if !imports {
		return
	}
	rows, err := db.QueryContext(ctx, "SHOW IMPORT JOBS")
	if err != nil {
		return
	}
	jobs, err := readJobs(rows)
	if err != nil {
		return
	}
	m.follow(jobs)
}

// follow notes how far the server's imports are.
func (m *meter) follow(jobs []importJob) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range jobs {
		for name, a := range m.active {
			if j.target != name.sql() || j.status != "running" {
				continue
			}
			a.rows, a.phase = j.rows, j.phase
			if done := a.total / 100 * percentOf(j.message); done > a.bytes {
				m.bytes += done - a.bytes
				a.bytes = done
			}
		}
	}
}

// percentOf is how much of an import is done, by the message that fastddl shows beside one that runs; 0 if it does not say it.
func percentOf(message string) int64 {
	var percent int64
	if _, err := fmt.Sscanf(message, "%d%%", &percent); err != nil {
		return 0
	}
	return min(max(percent, 0), 100)
}

func (m *meter) show() {
	m.mu.Lock()
	defer m.mu.Unlock()
	line := progressLine(m.active, m.ended, m.tables, m.bytes, m.total)
	if m.bar == nil {
		m.print(line)
		return
	}
	m.bar.Draw(float64(m.bytes)/float64(max(m.total, 1)), "", line)
}

// progressLine says how far the whole is, and the tables that are being loaded.
func progressLine(active map[Name]*measured, ended, tables int, bytes, total int64) string {
	line := fmt.Sprintf("%d of %d tables, %s of %s", ended, tables, size(bytes), size(total))
	var parts []string
	for name, a := range active {
		switch {
		case a.way == WayInsert:
			parts = append(parts, fmt.Sprintf("%s %d%%", name, a.bytes*100/max(a.total, 1)))
		case a.phase == "":
			parts = append(parts, name.String())
		default:
			parts = append(parts, fmt.Sprintf("%s %s %d%%, %d rows", name, a.phase, a.bytes*100/max(a.total, 1), a.rows))
		}
	}
	slices.Sort(parts)
	if over := len(parts) - shownTables; over > 0 {
		parts = append(parts[:shownTables], fmt.Sprintf("%d more", over))
	}
	if len(parts) > 0 {
		line += "; " + strings.Join(parts, "; ")
	}
	return line
}

// counted returns a number of things for people.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// size returns a number of bytes for people.
func size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
