package rows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pingcap/tidb/pkg/lightning/mydump"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/internal/errs"
)

// statementParser parses files of INSERT and REPLACE statements, as dumps have them. TiDB's mydump.ChunkParser reads
// such files too, and takes DEFAULT for text, _binary for a value of its own, and what it does not know for nothing;
// here each of them is what INSERT takes it for, or an error.
type statementParser struct {
	window
	names  []string // of the statement's list of columns, lower case; nil if it has none
	table  string   // of the first statement
	values []types.Datum
	rest   int64
	// inRows reports that VALUES was read and the statement goes on; afterRow that a row was the last thing in it.
	inRows, afterRow bool
	backslash        bool // escapes
}

var errCutOff = errors.New("the last statement is cut off")

// skipped are the words with which statements begin that bring no rows: those around the rows of a dump.
var skipped = map[string]bool{"set": true, "lock": true, "unlock": true, "begin": true, "start": true, "commit": true, "use": true, "drop": true, "create": true}

func (s *Source) openStatements(ctx context.Context, file *mydump.SourceFileMeta, c Chunk) (*statementParser, error) {
	st, err := s.openStream(ctx, file, c.Start, c.End)
	if err != nil {
		return nil, err
	}
	p := &statementParser{window: window{stream: st, base: c.Start}, rest: c.Start, backslash: !s.c.SQLMode.HasNoBackslashEscapesMode()}
	if c.Start > 0 {
		// A rest begins behind a row.
		p.names, p.inRows, p.afterRow = c.Columns, true, true
		return p, nil
	}
	if err := p.skipMark(); err != nil {
		return nil, errs.Combine(err, st.Close())
	}
	return p, nil
}

func (p *statementParser) next() ([]types.Datum, error) {
	values, err := p.read1()
	if err == nil || err == io.EOF {
		p.rest = p.offset()
		return values, err
	}
	if p.stream.failed != nil {
		return nil, p.stream.failed
	}
	return nil, &columnError{err: fmt.Errorf("at offset %d: %w", p.offset(), err)}
}

// read1 returns the values of the next row.
func (p *statementParser) read1() ([]types.Datum, error) {
	p.compact()
	for {
		c, err := p.blank()
		switch {
		case err == io.EOF && p.inRows && !p.afterRow:
			return nil, errCutOff
		case err != nil:
			return nil, err
		case !p.inRows:
			if err := p.statement(); err != nil {
				return nil, unexpectedEnd(err)
			}
		case c == ';':
			if !p.afterRow {
				return nil, errors.New("a row is missing before the end of the statement")
			}
			p.pos++
			p.inRows, p.names = false, nil
		case c == ',' && p.afterRow:
			p.pos++
			p.afterRow = false
		case c == '(' && !p.afterRow:
			p.pos++
			p.afterRow = true
			values, err := p.row()
			return values, unexpectedEnd(err)
		default:
			return nil, fmt.Errorf("a row was expected, or the end of the statement, not %s", p.excerpt())
		}
	}
}

func unexpectedEnd(err error) error {
	if err == io.EOF {
		return errCutOff
	}
	return err
}

// statement reads the words of a statement up to VALUES, or all of one that brings no rows.
func (p *statementParser) statement() error {
	if p.buf[p.pos] == ';' {
		p.pos++
		return nil
	}
	first := p.word()
	switch verb := strings.ToLower(first); {
	case verb == "insert", verb == "replace":
		return p.insert()
	case skipped[verb]:
		return p.skipStatement()
	}
	return fmt.Errorf("INSERT or REPLACE was expected, not %q", first+p.excerpt())
}

func (p *statementParser) insert() error {
	name := ""
	for name == "" {
		word, quoted, err := p.name()
		if err != nil {
			return err
		}
		switch strings.ToLower(word) {
		case "ignore", "into", "low_priority", "high_priority", "delayed":
			if !quoted {
				continue
			}
		}
		name = word
	}
	for {
		c, err := p.blank()
		if err != nil {
			return err
		}
		switch c {
		case '.':
			p.pos++
			if name, _, err = p.name(); err != nil {
				return err
			}
			continue
		case '(':
			p.pos++
			if err := p.list(); err != nil {
				return err
			}
			continue
		}
		word, quoted, err := p.name()
		if err != nil {
			return err
		}
		if w := strings.ToLower(word); quoted || w != "values" && w != "value" {
			return fmt.Errorf("VALUES was expected, not %q", word)
		}
		break
	}
	if p.table == "" {
		p.table = name
	} else if !strings.EqualFold(p.table, name) {
		return fmt.Errorf("the file has rows of several tables: %s and %s", p.table, name)
	}
	p.inRows, p.afterRow = true, false
	return nil
}

// list reads the columns of an INSERT.
func (p *statementParser) list() error {
	for {
		name, _, err := p.name()
		if err != nil {
			return err
		}
		p.names = append(p.names, strings.ToLower(name))
		c, err := p.blank()
		if err != nil {
			return err
		}
		p.pos++
		switch c {
		case ')':
			return nil
		case ',':
		default:
			return fmt.Errorf("in the list of columns, a comma was expected, not %q", c)
		}
	}
}

// name returns a name, in backquotes or not.
func (p *statementParser) name() (name string, quoted bool, err error) {
	c, err := p.blank()
	if err != nil {
		return "", false, err
	}
	if c == '`' || c == '"' {
		p.pos++
		b, err := p.quoted(c, false)
		return string(b), true, err
	}
	if name = p.word(); name == "" {
		return "", false, fmt.Errorf("a name was expected, not %s", p.excerpt())
	}
	return name, false, nil
}

// skipStatement reads on behind the next ; outside quotes.
func (p *statementParser) skipStatement() error {
	for {
		c, err := p.blank()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		p.pos++
		switch c {
		case ';':
			p.compact()
			return nil
		case '\'', '"', '`':
			if _, err := p.quoted(c, c != '`' && p.backslash); err != nil {
				return err
			}
		}
	}
}

func (p *statementParser) position() int64   { return p.rest }
func (p *statementParser) columns() []string { return p.names }
func (p *statementParser) read() int64       { return p.stream.read.n }
func (p *statementParser) Close() error      { return p.stream.Close() }

// window is the part of a file that is being parsed.
type window struct {
	stream *stream
	buf    []byte
	pos    int   // of the next byte
	base   int64 // offset of buf in the file
	eof    bool
}

// windowStep is how much is read at a time.
const windowStep = 256 << 10

func (w *window) offset() int64 { return w.base + int64(w.pos) }

// compact forgets what was parsed, once that is worth it. What was returned of it is overwritten later.
func (w *window) compact() {
	if w.pos < windowStep {
		return
	}
	n := copy(w.buf, w.buf[w.pos:])
	w.buf, w.base, w.pos = w.buf[:n], w.base+int64(w.pos), 0
}

// fill reads more behind buf; it returns io.EOF if there is no more.
func (w *window) fill() error {
	if w.eof {
		return io.EOF
	}
	if len(w.buf)-w.pos > mydump.LargestEntryLimit {
		return errors.New("size of row cannot exceed the max value of txn-entry-size-limit")
	}
	n := len(w.buf)
	if cap(w.buf)-n < windowStep {
		// Not in place: what was returned of the row is in the old memory.
		w.buf = append(make([]byte, 0, max(2*cap(w.buf), n+2*windowStep)), w.buf...)
	}
	read, err := io.ReadFull(w.stream, w.buf[n:n+windowStep])
	w.buf = w.buf[:n+read]
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		w.eof = true
		if read == 0 {
			return io.EOF
		}
		return nil
	}
	return err
}

// skipMark passes over a byte order mark.
func (w *window) skipMark() error {
	mark := []byte("\xef\xbb\xbf")
	for len(w.buf) < len(mark) {
		if err := w.fill(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	if bytes.HasPrefix(w.buf, mark) {
		w.pos = len(mark)
	}
	return nil
}

// peek returns the byte n behind the next one.
func (w *window) peek(n int) (byte, error) {
	for w.pos+n >= len(w.buf) {
		if err := w.fill(); err != nil {
			return 0, err
		}
	}
	return w.buf[w.pos+n], nil
}

// excerpt is what follows, for an error.
func (w *window) excerpt() string {
	return fmt.Sprintf("%q", w.buf[w.pos:min(w.pos+20, len(w.buf))])
}
