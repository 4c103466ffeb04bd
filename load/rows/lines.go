package rows

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/pingcap/tidb/pkg/executor/importer"
)

// Lines returns the places with their lines. It reads the files up to the last place of each once more.
func (s *Source) Lines(ctx context.Context, places []Place) ([]Place, error) {
	found := make([]Place, len(places))
	for i, p := range places {
		var err error
		if found[i], err = s.locate(ctx, p); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// locate returns a place with its line, counted from the beginning of the file. Lines end with \n, or with \r in a
// file without \n before the place.
func (s *Source) locate(ctx context.Context, p Place) (_ Place, err error) {
	if s.byRow() || p.Line > 0 || s.files[p.File] == nil {
		return p, nil
	}
	st, err := s.openStream(ctx, s.files[p.File], 0, -1)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	buf := make([]byte, scanBlock)
	begin := rowBegin{statements: s.c.Format == importer.DataFormatSQL}
	var at, newlines, returns int64
	for found := false; !found; {
		n, err := st.Read(buf)
		b := buf[:n]
		head := b[:min(int64(n), max(p.Offset-at, 0))]
		gap, begins := begin.before(b[len(head):])
		newlines += int64(bytes.Count(head, []byte{'\n'}) + bytes.Count(gap, []byte{'\n'}))
		returns += int64(bytes.Count(head, []byte{'\r'}) + bytes.Count(gap, []byte{'\r'}))
		found = begins
		at += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p, err
		}
	}
	p.Line = newlines + 1
	if newlines == 0 {
		p.Line = returns + 1
	}
	return p, nil
}

// rowBegin finds where a row begins behind the end of the one before it.
type rowBegin struct {
	// statements reports that rows stand in INSERT statements.
	statements bool
	header     bool // within the words before VALUES
	matched    int  // letters of VALUES
}

// before returns the part of b before the row, and whether the row begins behind it.
func (r *rowBegin) before(b []byte) (part []byte, found bool) {
	const values = "values"
	for i, c := range b {
		switch {
		case r.header:
			if c|0x20 == values[r.matched] {
				r.matched++
			} else {
				r.matched = 0
			}
			if r.matched == len(values) {
				r.header, r.matched = false, 0
			}
		case c == '\n' || c == '\r':
		case r.statements && (c == ' ' || c == '\t' || c == ',' || c == ';'):
		case r.statements && c != '(':
			r.header = true
		default:
			return b[:i], true
		}
	}
	return b, false
}
