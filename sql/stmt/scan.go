package stmt

import (
	"strings"

	tidbfeature "github.com/pingcap/tidb/pkg/parser/tidb"
)

// scanner reads the words at the head of a statement and finds its end, with
// MySQL's rules for comments and quotes.
type scanner struct {
	text string
	pos  int
	// executable counts the open comments whose content is code: /*! and /*T!.
	executable int
	// noBackslash: a backslash in a string is an ordinary character.
	noBackslash bool
}

func (s *scanner) at(i int) byte {
	if i < len(s.text) {
		return s.text[i]
	}
	return 0
}

func isSpace(c byte) bool {
	return c == ' ' || (c >= '\t' && c <= '\r')
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 ||
		(c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
}

// lineComment reports whether a comment that ends with the line starts at pos.
func (s *scanner) lineComment() bool {
	c := s.at(s.pos)
	if c == '#' {
		return true
	}
	if c != '-' || s.at(s.pos+1) != '-' {
		return false
	}
	next := s.at(s.pos + 2)
	return next == 0 || next < ' ' || next == ' '
}

func (s *scanner) skipLine() {
	if i := strings.IndexByte(s.text[s.pos:], '\n'); i >= 0 {
		s.pos += i + 1
	} else {
		s.pos = len(s.text)
	}
}

// skipComment skips the block comment at pos.
func (s *scanner) skipComment() {
	if i := strings.Index(s.text[s.pos+2:], "*/"); i >= 0 {
		s.pos += 2 + i + 2
	} else {
		s.pos = len(s.text)
	}
}

// enterComment moves into the comment at pos if its content is code.
func (s *scanner) enterComment() bool {
	rest := s.text[s.pos+2:]
	switch {
	case strings.HasPrefix(rest, "!"):
		s.pos += 3
		for n := 0; n < 6 && s.at(s.pos) >= '0' && s.at(s.pos) <= '9'; n++ {
			s.pos++
		}
	case strings.HasPrefix(rest, "T!["):
		end := strings.IndexByte(rest, ']')
		if end < 0 || !tidbfeature.CanParseFeature(strings.Split(rest[3:end], ",")...) {
			return false
		}
		s.pos += 2 + end + 1
	case strings.HasPrefix(rest, "T!"):
		s.pos += 4
	default:
		return false
	}
	s.executable++
	return true
}

// skip moves over white space and comments.
func (s *scanner) skip() {
	for s.pos < len(s.text) {
		switch {
		case isSpace(s.text[s.pos]):
			s.pos++
		case s.lineComment():
			s.skipLine()
		case strings.HasPrefix(s.text[s.pos:], "/*"):
			if !s.enterComment() {
				s.skipComment()
			}
		case s.executable > 0 && strings.HasPrefix(s.text[s.pos:], "*/"):
			s.executable--
			s.pos += 2
		default:
			return
		}
	}
}

// next returns the next word in capitals, or the next character if it is not
// part of a word, or "" at the end of the text.
func (s *scanner) next() string {
	s.skip()
	start := s.pos
	for s.pos < len(s.text) && isWord(s.text[s.pos]) {
		s.pos++
	}
	if s.pos == start {
		if s.pos == len(s.text) {
			return ""
		}
		s.pos++
	}
	return strings.ToUpper(s.text[start:s.pos])
}

// skipQuoted moves over the quoted text at pos.
func (s *scanner) skipQuoted() {
	quote := s.text[s.pos]
	s.pos++
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		switch {
		case c == '\\' && quote != '`' && !s.noBackslash:
			s.pos++
		case c == quote && s.at(s.pos) == quote:
			s.pos++
		case c == quote:
			return
		}
	}
	s.pos = len(s.text)
}

// end returns the offset of the delimiter that ends the first statement, or the
// length of the text.
func (s *scanner) end(delimiter rune) int {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '\'' || c == '"' || c == '`':
			s.skipQuoted()
		case s.lineComment():
			s.skipLine()
		case strings.HasPrefix(s.text[s.pos:], "/*"):
			s.skipComment()
		case strings.HasPrefix(s.text[s.pos:], string(delimiter)):
			return s.pos
		default:
			s.pos++
		}
	}
	return len(s.text)
}
