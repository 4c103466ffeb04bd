package rows

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/pingcap/tidb/pkg/executor/importer"
)

// Lines returns the places with their lines. It reads each file up to its last place once more.
func (s *Source) Lines(ctx context.Context, places []Place) ([]Place, error) {
	found := slices.Clone(places)
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(places[a].File, places[b].File), cmp.Compare(places[a].Offset, places[b].Offset))
	})
	var counted lineCount
	for n, i := range order {
		if n > 0 && places[order[n-1]].File != places[i].File {
			counted = lineCount{}
		}
		var err error
		if found[i], err = s.locate(ctx, places[i], &counted); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// lineCount is how many lines end before an offset of a file. The zero value is its beginning.
type lineCount struct{ offset, newlines, returns int64 }

func (c *lineCount) add(b []byte) {
	c.offset += int64(len(b))
	c.newlines += int64(bytes.Count(b, []byte{'\n'}))
	c.returns += int64(bytes.Count(b, []byte{'\r'}))
}

// locate returns a place with its line, counted from the beginning of the file, and moves counted to its offset, if
// it does not lie behind. Lines end with \n, or with \r in a file without \n before the place.
func (s *Source) locate(ctx context.Context, p Place, counted *lineCount) (_ Place, err error) {
	if s.byRow() || p.Line > 0 || s.files[p.File] == nil {
		return p, nil
	}
	if counted.offset > p.Offset {
		*counted = lineCount{}
	}
	st, err := s.openStream(ctx, s.files[p.File], counted.offset, -1)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	buf := make([]byte, scanBlock)
	begin := rowBegin{statements: s.c.Format == importer.DataFormatSQL}
	gap := lineCount{}
	for found := false; !found; {
		n, err := st.Read(buf)
		head := buf[:min(int64(n), p.Offset-counted.offset)]
		counted.add(head)
		var part []byte
		part, found = begin.before(buf[len(head):n])
		gap.add(part)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p, err
		}
	}
	p.Line = counted.newlines + gap.newlines + 1
	if p.Line == 1 {
		p.Line = counted.returns + gap.returns + 1
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
