package rows

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/hack"
)

// isDefault reports that a value is the word DEFAULT, which a statementParser gives as the least value.
func isDefault(d *types.Datum) bool { return d.Kind() == types.KindMinNotNull }

// blank passes over white space and comments and returns the next byte, which stays.
func (p *statementParser) blank() (byte, error) {
	for {
		c, err := p.peek(0)
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\n', '\r', '\f', '\v':
			p.pos++
			continue
		case '#':
			if err := p.pass([]byte{'\n'}, true); err != nil {
				return 0, err
			}
			continue
		case '-':
			if next, err := p.peek(1); err == nil && next == '-' {
				if err := p.pass([]byte{'\n'}, true); err != nil {
					return 0, err
				}
				continue
			}
		case '/':
			if next, err := p.peek(1); err == nil && next == '*' {
				p.pos += 2
				if err := p.pass([]byte("*/"), false); err != nil {
					return 0, err
				}
				continue
			}
		}
		return c, nil
	}
}

// pass reads on behind mark; the end of the file may stand for it.
func (p *statementParser) pass(mark []byte, end bool) error {
	for {
		if i := bytes.Index(p.buf[p.pos:], mark); i >= 0 {
			p.pos += i + len(mark)
			return nil
		}
		err := p.fill()
		if err == io.EOF && end {
			p.pos = len(p.buf)
			return nil
		}
		if err == io.EOF {
			return errors.New("a comment has no end")
		}
		if err != nil {
			return err
		}
	}
}

// word returns letters, digits, _, $ and bytes of other alphabets.
func (p *statementParser) word() string {
	n := 0
	for {
		c, err := p.peek(n)
		if err != nil || !(c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z') {
			break
		}
		n++
	}
	word := string(p.buf[p.pos : p.pos+n])
	p.pos += n
	return word
}

// quoted returns the text up to a quote that is not doubled, without escapes, and passes behind the quote. It is
// valid until the window is compacted.
func (p *statementParser) quoted(quote byte, backslash bool) ([]byte, error) {
	from := 0 // behind p.pos: where to look for the quote
	for {
		i := bytes.IndexByte(p.buf[p.pos+from:], quote)
		if i < 0 {
			from = len(p.buf) - p.pos
			if err := p.fill(); err == io.EOF {
				return nil, errors.New("a quote has no end")
			} else if err != nil {
				return nil, err
			}
			continue
		}
		text := p.buf[p.pos : p.pos+from+i]
		next, err := p.peek(len(text) + 1)
		if err != nil && err != io.EOF {
			return nil, err
		}
		text = p.buf[p.pos : p.pos+from+i]
		if backslash && bytes.IndexByte(text, '\\') >= 0 || err == nil && next == quote {
			return p.escaped(quote, backslash)
		}
		p.pos += len(text) + 1
		return text, nil
	}
}

// escaped is quoted for text with escapes or doubled quotes.
func (p *statementParser) escaped(quote byte, backslash bool) ([]byte, error) {
	var text []byte
	for n := 0; ; n++ {
		c, err := p.peek(n)
		if err == io.EOF {
			return nil, errors.New("a quote has no end")
		}
		if err != nil {
			return nil, err
		}
		switch {
		case c == quote:
			next, err := p.peek(n + 1)
			if err != nil && err != io.EOF {
				return nil, err
			}
			if err == io.EOF || next != quote {
				p.pos += n + 1
				return text, nil
			}
			n++
		case c == '\\' && backslash:
			n++
			if c, err = p.peek(n); err != nil {
				return nil, unexpectedEnd(err)
			}
			switch c {
			case '0':
				c = 0
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'Z':
				c = 26
			case '%', '_':
				text = append(text, '\\')
			}
		}
		text = append(text, c)
	}
}

// row returns the values up to the closing parenthesis.
func (p *statementParser) row() ([]types.Datum, error) {
	p.values = p.values[:0]
	for {
		var d types.Datum
		if err := p.value(&d); err != nil {
			return nil, err
		}
		p.values = append(p.values, d)
		c, err := p.blank()
		if err != nil {
			return nil, err
		}
		switch c {
		case ',':
			p.pos++
		case ')':
			p.pos++
			return p.values, nil
		default:
			return nil, fmt.Errorf("a comma or the end of the row was expected, not %s", p.excerpt())
		}
	}
}

// value reads a literal.
func (p *statementParser) value(d *types.Datum) error {
	c, err := p.blank()
	if err != nil {
		return err
	}
	switch {
	case c == '\'' || c == '"':
		p.pos++
		text, err := p.quoted(c, p.backslash)
		d.SetString(string(hack.String(text)), mysql.DefaultCollationName)
		return err
	case '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.':
		return p.number(d)
	}
	word := p.word()
	switch lower := strings.ToLower(word); lower {
	case "null":
		d.SetNull()
		return nil
	case "true":
		d.SetInt64(1)
		return nil
	case "false":
		d.SetInt64(0)
		return nil
	case "default":
		*d = types.MinNotNullDatum()
		return nil
	case "x", "b":
		if next, err := p.peek(0); err == nil && next == '\'' {
			p.pos++
			text, err := p.quoted('\'', false)
			if err != nil {
				return err
			}
			return setBinary(d, lower, string(text))
		}
	case "convert":
		return p.convert(d)
	default:
		if name, ok := strings.CutPrefix(lower, "_"); ok {
			return p.introduced(d, name)
		}
	}
	return fmt.Errorf("%q is not a value that can be imported", word+p.excerpt())
}

// introduced reads the literal behind a character set such as _binary.
func (p *statementParser) introduced(d *types.Datum, name string) error {
	if err := p.value(d); err != nil {
		return err
	}
	switch {
	case name == charset.CharsetUTF8MB4, name == charset.CharsetUTF8, name == "utf8mb3":
	case d.Kind() != types.KindString: // 0x61
	case name == charset.CharsetBin:
		d.SetString(d.GetString(), charset.CollationBin)
	default:
		for _, c := range d.GetBytes() {
			if c >= 0x80 {
				return fmt.Errorf("text of the character set %s cannot be imported from statements", name)
			}
		}
	}
	return nil
}

// convert reads CONVERT('...' USING utf8mb4), as mydumper writes JSON.
func (p *statementParser) convert(d *types.Datum) error {
	if c, err := p.blank(); err != nil || c != '(' {
		return fmt.Errorf("CONVERT without a parenthesis: %w", errCutOff)
	}
	p.pos++
	if err := p.value(d); err != nil {
		return err
	}
	for _, want := range []string{"using", "utf8mb4"} {
		if _, err := p.blank(); err != nil {
			return err
		}
		if word := p.word(); !strings.EqualFold(word, want) {
			return fmt.Errorf("CONVERT(... USING utf8mb4) was expected, not %q", word)
		}
	}
	if c, err := p.blank(); err != nil {
		return err
	} else if c != ')' {
		return fmt.Errorf("the end of CONVERT was expected, not %s", p.excerpt())
	}
	p.pos++
	return nil
}

// number reads a number: an integer, a decimal, or one with an exponent, which INSERT takes for a float.
func (p *statementParser) number(d *types.Datum) error {
	n := 0
	for {
		c, err := p.peek(n)
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF || bytes.IndexByte([]byte(" \t\r\n\f\v,);/"), c) >= 0 {
			break
		}
		n++
	}
	text := string(p.buf[p.pos : p.pos+n])
	p.pos += n
	if len(text) > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'b') {
		return setBinary(d, text[1:2], text[2:])
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		if u <= 1<<63-1 {
			d.SetInt64(int64(u))
		} else {
			d.SetUint64(u)
		}
		return nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		d.SetInt64(i)
		return nil
	}
	if strings.ContainsAny(text, "eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		d.SetFloat64(f)
		return nil
	}
	dec := new(types.MyDecimal)
	if err := dec.FromString([]byte(text)); err != nil {
		return fmt.Errorf("%q is not a number: %w", text, err)
	}
	d.SetMysqlDecimal(dec)
	return nil
}

// setBinary sets d to a literal of hexadecimal or binary digits.
func setBinary(d *types.Datum, kind, digits string) error {
	var literal types.BinaryLiteral
	var err error
	if kind == "x" {
		var hex types.HexLiteral
		hex, err = types.NewHexLiteral("x'" + digits + "'")
		literal = types.BinaryLiteral(hex)
		if err != nil {
			hex, err = types.NewHexLiteral("0x" + digits) // of an odd number of digits
			literal = types.BinaryLiteral(hex)
		}
	} else {
		var bit types.BitLiteral
		bit, err = types.NewBitLiteral("b'" + digits + "'")
		literal = types.BinaryLiteral(bit)
	}
	if err != nil {
		return fmt.Errorf("%s'%s': %w", kind, digits, err)
	}
	d.SetBinaryLiteral(literal)
	return nil
}
