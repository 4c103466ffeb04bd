package dump

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/semaphore"
)

// spoolFileBytes is where a file of a spooled table ends: the server reads a table's files in parallel.
const spoolFileBytes = 64 << 20

// spool holds the rows of a script's tables as files that IMPORT INTO can read, each table until it is loaded. Their sizes add up
// to the quota at most.
//
// The table that is being written has its whole size reserved, and those that are written are being loaded. So a script
// that waits for room waits for loads, which do not wait for it.
type spool struct {
	dir  string
	room *semaphore.Weighted
	next int
}

// newSpool makes a folder for the files below parent.
func newSpool(parent string, quota int64) (*spool, error) {
	dir, err := os.MkdirTemp(parent, "fastddl-load-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for temporary files: %w", err)
	}
	return &spool{dir: dir, room: semaphore.NewWeighted(quota)}, nil
}

func (s *spool) close() error { return os.RemoveAll(s.dir) }

// spooled is a table on its way into files.
type spooled struct {
	spool *spool
	table Table
	id    int
	size  int64 // reserved
	// columns are those of the table if statements are rewritten without the generated ones, else none.
	columns []column

	file    *os.File
	out     *bufio.Writer
	written int64 // to file
}

// statementEnd is what a file has between statements.
const statementEnd = ";\n"

// begin reserves room for a table, and waits for it.
func (s *spool) begin(ctx context.Context, t *Table, columns []column) (*spooled, error) {
	if err := s.room.Acquire(ctx, t.section.bytes); err != nil {
		return nil, context.Cause(ctx)
	}
	s.next++
	w := &spooled{spool: s, table: *t, id: s.next, size: t.section.bytes, columns: columns}
	w.table.pattern, w.table.unlisted = fmt.Sprintf("t%d.*.sql", w.id), t.unlisted && len(columns) == 0
	return w, nil
}

// write appends a statement.
func (w *spooled) write(ctx context.Context, text []byte) error {
	if len(w.columns) > 0 {
		rewritten, err := withoutGenerated(ctx, &w.table, w.columns, string(text))
		if err != nil {
			return err
		}
		text = []byte(rewritten)
	} else if bytes.Contains(text, []byte(introducer)) {
		text = []byte(withoutIntroducers(string(text), w.table.section.settings.literalBackslash))
	}
	if w.file == nil || w.written >= spoolFileBytes {
		if err := w.endFile(); err != nil {
			return err
		}
		path := filepath.Join(w.spool.dir, fmt.Sprintf("t%d.%06d.sql", w.id, len(w.table.Files)))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("write temporary files: %w", err)
		}
		w.file, w.out, w.written = file, bufio.NewWriterSize(file, 1<<20), 0
		w.table.Files = append(w.table.Files, File{Path: path, Format: SQL, settings: w.table.section.settings})
	}
	w.written += int64(len(text) + len(statementEnd))
	if _, err := w.out.Write(text); err != nil {
		return fmt.Errorf("write temporary files: %w", err)
	}
	if _, err := w.out.WriteString(statementEnd); err != nil {
		return fmt.Errorf("write temporary files: %w", err)
	}
	return nil
}

func (w *spooled) endFile() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.out.Flush(), w.file.Close())
	w.table.Files[len(w.table.Files)-1].Bytes = w.written
	w.file = nil
	if err != nil {
		return fmt.Errorf("write temporary files: %w", err)
	}
	return nil
}

// end ends the last file; the table's Files are then complete.
func (w *spooled) end() error { return w.endFile() }

// drop removes the files and frees their room.
func (w *spooled) drop() error {
	problems := []error{w.endFile()}
	for _, f := range w.table.Files {
		problems = append(problems, os.Remove(f.Path))
	}
	w.spool.room.Release(w.size)
	return errors.Join(problems...)
}
