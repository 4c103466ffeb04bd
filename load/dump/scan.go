package dump

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxStatementBytes bounds the memory that a statement takes; MySQL's own bound on a packet is the same.
	maxStatementBytes = 1 << 30
	scanBlockBytes    = 1 << 20
)

// scanner splits a script of SQL into statements as the mysql client does: it knows strings, comments and
// the command DELIMITER. It keeps one statement in memory.
type scanner struct {
	r   io.Reader
	eof bool
	err error
	// buf[start:pos] is what has been read of the current statement, buf[pos:] is not looked at yet.
	buf        []byte
	start, pos int
	// base is the offset of buf[0] in the source.
	base int64
	// line is that of buf[pos], from 1.
	line  int64
	delim []byte
	// literal says that a backslash is a character as any other (NO_BACKSLASH_ESCAPES).
	literal bool
}

// statement is one of a script. text is valid until the next one is read.
type statement struct {
	// text has no delimiter; comments before the first word are in it.
	text []byte
	// line is that of the first word, from 1.
	line int64
}

func newScanner(r io.Reader) *scanner {
	return &scanner{r: r, delim: []byte(";"), line: 1}
}

// fill reads on and reports whether there was more.
func (s *scanner) fill() bool {
	if s.eof || s.err != nil {
		return false
	}
	if s.start > 0 {
		n := copy(s.buf, s.buf[s.start:])
		s.base += int64(s.start)
		s.buf, s.pos, s.start = s.buf[:n], s.pos-s.start, 0
	}
	if len(s.buf) > maxStatementBytes {
		s.err = fmt.Errorf("line %d: a statement is longer than %d bytes", s.line, maxStatementBytes)
		return false
	}
	if cap(s.buf)-len(s.buf) < scanBlockBytes {
		s.buf = append(make([]byte, 0, 2*cap(s.buf)+2*scanBlockBytes), s.buf...)
	}
	n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	switch {
	case errors.Is(err, io.EOF):
		s.eof = true
	case err != nil:
		s.err = fmt.Errorf("line %d: %w", s.line, err)
		return n > 0
	}
	return n > 0 || !s.eof
}

// peek returns the byte n after the position; false at the end of the source.
func (s *scanner) peek(n int) (byte, bool) {
	for s.pos+n >= len(s.buf) {
		if !s.fill() {
			return 0, false
		}
	}
	return s.buf[s.pos+n], true
}

func (s *scanner) hasPrefix(p []byte) bool {
	if _, ok := s.peek(len(p) - 1); !ok {
		return false
	}
	return bytes.HasPrefix(s.buf[s.pos:], p)
}

// advance moves the position by n bytes, which are in the buffer.
func (s *scanner) advance(n int) {
	s.line += int64(bytes.Count(s.buf[s.pos:s.pos+n], newline))
	s.pos += n
}

var newline = []byte("\n")

// plain are the bytes outside of strings and comments that need no look.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c > ' ' && !bytes.ContainsRune([]byte("'\"`#-/*"), rune(c))
	}
	return t
}()

// next returns the next statement that is not empty; io.EOF at the end. The last one may lack its delimiter.
func (s *scanner) next() (statement, error) {
	s.start = s.pos
	begun, executable := false, 0
	var first int64
	begin := func() {
		if !begun {
			begun, first = true, s.line
		}
	}
	for {
		c, ok := s.peek(0)
		if !ok {
			break
		}
		switch {
		case executable == 0 && c == s.delim[0] && s.hasPrefix(s.delim):
			text := s.buf[s.start:s.pos]
			s.advance(len(s.delim))
			if begun {
				return statement{text: text, line: first}, nil
			}
			s.start = s.pos
		case plain[c]:
			if !begun && s.delimiterCommand() {
				s.start = s.pos
				continue
			}
			begin()
			s.advance(s.plainRun())
		case c <= ' ':
			s.advance(1)
		case c == '\'' || c == '"' || c == '`':
			begin()
			if !s.quoted(c) {
				return statement{}, s.unfinished(first, "a string")
			}
		case c == '#' || c == '-' && s.lineComment():
			s.skipLine()
		case c == '/' && s.hasPrefix([]byte("/*")):
			if s.executableComment() {
				begin()
				executable++
				s.advance(2)
			} else if !s.skipComment() {
				return statement{}, s.unfinished(s.line, "a comment")
			}
		case executable > 0 && c == '*' && s.hasPrefix([]byte("*/")):
			executable--
			s.advance(2)
		default:
			begin()
			s.advance(1)
		}
	}
	switch {
	case s.err != nil:
		return statement{}, s.err
	case executable > 0:
		return statement{}, s.unfinished(first, "a comment")
	case begun:
		return statement{text: s.buf[s.start:s.pos], line: first}, nil
	}
	return statement{}, io.EOF
}

// plainRun returns how many bytes of the buffer from the position on are plain, at least one, and none of them
// begins the delimiter.
func (s *scanner) plainRun() int {
	n := 1
	for s.pos+n < len(s.buf) && plain[s.buf[s.pos+n]] && s.buf[s.pos+n] != s.delim[0] {
		n++
	}
	return n
}

// unfinished is the error of a source that ends inside of something.
func (s *scanner) unfinished(line int64, of string) error {
	if s.err != nil {
		return s.err
	}
	return fmt.Errorf("line %d: the file ends inside of %s: %w", line, of, io.ErrUnexpectedEOF)
}

// quoted moves behind a string or a quoted name; false if it has no end.
func (s *scanner) quoted(quote byte) bool {
	s.advance(1)
	for {
		rest := s.buf[s.pos:]
		n := bytes.IndexByte(rest, quote)
		escape := -1
		if !s.literal && quote != '`' {
			end := rest
			if n >= 0 {
				end = rest[:n]
			}
			escape = bytes.IndexByte(end, '\\')
		}
		switch {
		case escape >= 0:
			s.advance(escape)
			if _, ok := s.peek(1); !ok {
				return false
			}
			s.advance(2)
		case n >= 0: // a doubled quote begins another string, which joins this one
			s.advance(n + 1)
			return true
		default:
			s.advance(len(rest))
			if _, ok := s.peek(0); !ok {
				return false
			}
		}
	}
}

// lineComment reports whether the position is at -- followed by a space or by the end of the line.
func (s *scanner) lineComment() bool {
	if c, ok := s.peek(1); !ok || c != '-' {
		return false
	}
	c, ok := s.peek(2)
	return !ok || c <= ' '
}

func (s *scanner) skipLine() {
	for {
		if n := bytes.IndexByte(s.buf[s.pos:], '\n'); n >= 0 {
			s.advance(n + 1)
			return
		}
		s.advance(len(s.buf) - s.pos)
		if _, ok := s.peek(0); !ok {
			return
		}
	}
}

// executableComment reports whether the comment at the position holds code: /*! of MySQL, /*M! of MariaDB,
// /*T! of TiDB.
func (s *scanner) executableComment() bool {
	c, ok := s.peek(2)
	if ok && (c == 'M' || c == 'T') {
		c, ok = s.peek(3)
	}
	return ok && c == '!'
}

// skipComment moves behind a comment; false if it has no end.
func (s *scanner) skipComment() bool {
	s.advance(2)
	for !s.hasPrefix([]byte("*/")) {
		if _, ok := s.peek(0); !ok {
			return false
		}
		s.advance(1)
	}
	s.advance(2)
	return true
}

// delimiterCommand obeys the command DELIMITER of the mysql client, if it is at the position.
func (s *scanner) delimiterCommand() bool {
	const command = "DELIMITER"
	if _, ok := s.peek(len(command)); !ok {
		return false
	}
	if !bytes.EqualFold(s.buf[s.pos:s.pos+len(command)], []byte(command)) || s.buf[s.pos+len(command)] > ' ' {
		return false
	}
	s.start = s.pos // no statement has begun; fill moves the buffer up to here
	for c := byte(0); c != '\n'; {
		s.advance(1)
		var ok bool
		if c, ok = s.peek(0); !ok {
			break
		}
	}
	words := bytes.Fields(s.buf[s.start:s.pos])
	if len(words) > 1 {
		s.delim = bytes.Clone(words[1])
	}
	return true
}
