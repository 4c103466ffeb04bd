package rows

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/lightning/config"
	"github.com/pingcap/tidb/pkg/lightning/mydump"

	"fastddl/internal/errs"
)

// The sizes of chunks: small enough to keep all workers busy to the end, large enough for few opens.
const (
	chunkBytes = 64 << 20
	maxChunks  = 512 // of a file
	scanBlock  = 1 << 20
)

// rowEnds says how the ends of rows are recognised in a CSV file without parsing it.
type rowEnds struct {
	quote, escape byte // if quoted, escaped
	quoted        bool
	escaped       bool
	// terminator is empty if \r, \n and \r\n end rows.
	terminator []byte
}

// newRowEnds returns how rows end, or false for formats in which an end cannot be told from data.
func newRowEnds(cfg *config.CSVConfig) (rowEnds, bool) {
	terminator := cfg.Terminator
	e := rowEnds{terminator: []byte(terminator)}
	if len(cfg.StartingBy) > 0 || len(cfg.Delimiter) > 1 || len(cfg.EscapedBy) > 1 {
		return e, false
	}
	// The parser looks for terminators in the character set of the file.
	if strings.ContainsFunc(terminator, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return e, false
	}
	for i := range len(terminator) {
		// A terminator that overlaps itself, or one whose second half is another token, needs the parser.
		if strings.IndexByte(terminator[i+1:], terminator[i]) >= 0 {
			return e, false
		}
		if i > 0 && (strings.IndexByte(cfg.Separator, terminator[i]) >= 0 || strings.IndexByte(cfg.Delimiter+cfg.EscapedBy, terminator[i]) >= 0) {
			return e, false
		}
	}
	if len(cfg.Separator) > 1 && strings.ContainsAny(cfg.Separator, terminator+"\r\n"+cfg.Delimiter+cfg.EscapedBy) {
		return e, false
	}
	if cfg.Delimiter != "" {
		e.quoted, e.quote = true, cfg.Delimiter[0]
	}
	if cfg.EscapedBy != "" {
		e.escaped, e.escape = true, cfg.EscapedBy[0]
	}
	first := "\r\n"
	if terminator != "" {
		first = terminator[:1]
	}
	// A backslash that ends rows, or a character that both quotes and escapes, is left to the parser.
	if strings.ContainsAny(first, cfg.Delimiter+cfg.EscapedBy) || cfg.Delimiter != "" && cfg.Delimiter == cfg.EscapedBy {
		return e, false
	}
	return e, true
}

// scanner walks over a CSV file in one state: inside a quoted field or not.
type scanner struct {
	rowEnds
	inQuotes bool
	skip     bool // the byte after an escape
	// matched are the bytes of the terminator just before.
	matched int
}

// advance walks over b. If stop, it returns behind the first end of a row; else it returns len(b), false.
func (s *scanner) advance(b []byte, stop bool) (n int, found bool) {
	if !stop {
		s.pass(b)
		return len(b), false
	}
	for i, c := range b {
		if s.step(c) {
			return i + 1, true
		}
	}
	return len(b), false
}

// pass walks over b where ends of rows do not matter: from one quote or escape to the next.
func (s *scanner) pass(b []byte) {
	s.matched = 0
	if s.skip && len(b) > 0 {
		b, s.skip = b[1:], false
	}
	if !s.escaped {
		if s.quoted && bytes.Count(b, []byte{s.quote})%2 == 1 {
			s.inQuotes = !s.inQuotes
		}
		return
	}
	for len(b) > 0 {
		escape := bytes.IndexByte(b, s.escape)
		part := b
		if escape >= 0 {
			part = b[:escape]
		}
		if s.quoted && bytes.Count(part, []byte{s.quote})%2 == 1 {
			s.inQuotes = !s.inQuotes
		}
		if escape < 0 {
			return
		}
		if escape+1 == len(b) {
			s.skip = true
			return
		}
		b = b[escape+2:]
	}
}

// step takes one byte and reports whether a row ends behind it.
func (s *scanner) step(c byte) bool {
	switch {
	case s.skip:
		s.skip, s.matched = false, 0
		return false
	case s.escaped && c == s.escape:
		s.skip, s.matched = true, 0
		return false
	case s.quoted && c == s.quote:
		s.inQuotes, s.matched = !s.inQuotes, 0
		return false
	case s.inQuotes:
		return false
	case len(s.terminator) == 0:
		return c == '\n' || c == '\r'
	}
	if c == s.terminator[s.matched] {
		s.matched++
	} else if c == s.terminator[0] {
		s.matched = 1
	} else {
		s.matched = 0
	}
	if s.matched == len(s.terminator) {
		s.matched = 0
		return true
	}
	return false
}

// cut returns offsets at which a plain CSV file may be divided: behind the ends of rows, outside quotes.
func (s *Source) cut(ctx context.Context, file *mydump.SourceFileMeta) (cuts []int64, err error) {
	size := max(s.chunkBytes, file.FileSize/maxChunks)
	if file.FileSize < 2*size {
		return nil, nil
	}
	parser, err := s.openCSV(ctx, file, 0, file.FileSize, true)
	if err != nil {
		return nil, err
	}
	// The rows that the statement skips end at line ends, regardless of quotes.
	start := parser.position()
	if err := parser.Close(); err != nil {
		return nil, fmt.Errorf("load: close %s: %w", file.Path, err)
	}
	ends, ok := newRowEnds(s.c.GenerateCSVConfig())
	if !ok {
		return nil, nil
	}
	st, err := s.openStream(ctx, file, start, file.FileSize)
	if err != nil {
		return nil, err
	}
	cuts, err = ends.cuts(st, start, file.FileSize, size)
	return cuts, errs.Combine(err, st.Close())
}

// cuts scans a file from start on and returns an end of a row behind each multiple of size.
func (e rowEnds) cuts(r io.Reader, start, end, size int64) (cuts []int64, err error) {
	scan := scanner{rowEnds: e}
	at, next := start, (start/size+1)*size
	buf := make([]byte, scanBlock)
	for next < end {
		n, err := io.ReadFull(r, buf[:min(int64(len(buf)), end-at)])
		if err != nil {
			return nil, fmt.Errorf("load: find where to cut: %w", err)
		}
		for b := buf[:n]; len(b) > 0; {
			stop := at >= next
			part := b
			if !stop && next-at < int64(len(b)) {
				part = b[:next-at]
			}
			n, found := scan.advance(part, stop)
			at, b = at+int64(n), b[n:]
			if found {
				cuts = append(cuts, at)
				next = max(next+size, at)
			}
		}
		if at == end {
			break
		}
	}
	if len(cuts) > 0 && cuts[len(cuts)-1] >= end {
		cuts = cuts[:len(cuts)-1]
	}
	return cuts, nil
}
