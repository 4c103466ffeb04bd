package sqlerr

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/dolthub/vitess/go/vt/vterrors"
	"github.com/pingcap/tidb/pkg/errno"
)

// nearLen is how much of the statement MySQL quotes in a syntax error, in bytes.
const nearLen = 80

// Syntax returns error 1064 for a statement that cannot be read from the given
// byte offset on.
func Syntax(statement string, offset int) *mysql.SQLError {
	offset = min(max(offset, 0), len(statement))
	line := 1 + strings.Count(statement[:offset], "\n")
	near := strings.Trim(statement[offset:], " \t\r\n;")
	if len(near) > nearLen {
		near = strings.ToValidUTF8(near[:nearLen], "")
	}
	return New(errno.ErrParse, "near '"+near+"' at line "+strconv.Itoa(line))
}

// FromVitess translates an error of the vitess parser; statement is the text it
// was given.
func FromVitess(statement string, err error) error {
	var se vterrors.SyntaxError
	if !errors.As(err, &se) {
		var ok bool
		if se, ok = vterrors.AsSyntaxError(err); !ok {
			return Translate(err)
		}
	}
	if !strings.HasPrefix(se.Message, "syntax error") {
		// The grammar's own complaints have a text but no place.
		return Newf(errno.ErrParse, "%s", se.Message)
	}
	return syntaxFromText(statement, se.Message)
}

var vitessSyntax = regexp.MustCompile(`(?s)^syntax error at position (\d+)(?: near '(.*)')?$`)

// syntaxFromText makes error 1064 from vitess' "syntax error at position 8 near
// 'from'". The position lies at or behind the end of the token that the parser
// stumbled over, and the token is lower-cased in part.
func syntaxFromText(statement, text string) *mysql.SQLError {
	m := vitessSyntax.FindStringSubmatch(text)
	if m == nil {
		return Newf(errno.ErrParse, "%s", text)
	}
	end, err := strconv.Atoi(m[1])
	if err != nil {
		end = len(statement)
	}
	end = min(end, len(statement))
	token := m[2]
	if token == "" || stoppedAtEnd(statement, text) {
		return Syntax(statement, len(statement))
	}
	if i := strings.LastIndex(strings.ToLower(statement[:end]), strings.ToLower(token)); i >= 0 {
		return Syntax(statement, i)
	}
	return New(errno.ErrParse, "near '"+token+"' at line 1")
}

// stoppedAtEnd reports whether vitess found the statement incomplete. It then
// names the last token, as it does when it dislikes that token; only when it
// wanted more does another token make a difference.
func stoppedAtEnd(statement, text string) bool {
	_, err := sqlparser.Parse(statement + " 0")
	if err == nil {
		return true
	}
	m, again := vitessSyntax.FindStringSubmatch(text), vitessSyntax.FindStringSubmatch(err.Error())
	return m != nil && again != nil && m[1] != again[1]
}

// tidbSyntax is the text of the TiDB parser's syntax error.
var tidbSyntax = regexp.MustCompile(`(?s)^line (\d+) column \d+ near "(.*)"(.*)$`)

// FromTiDB translates an error of TiDB's parser; statement is the text it was
// given.
func FromTiDB(statement string, err error) error {
	m := tidbSyntax.FindStringSubmatch(err.Error())
	if m == nil {
		return Translate(err)
	}
	near := m[2]
	if i := strings.LastIndex(statement, near); i >= 0 && near != "" {
		return Syntax(statement, i)
	}
	if near == "" {
		return Syntax(statement, len(statement))
	}
	if len(near) > nearLen {
		near = strings.ToValidUTF8(near[:nearLen], "")
	}
	return New(errno.ErrParse, "near '"+near+"' at line "+m[1])
}
