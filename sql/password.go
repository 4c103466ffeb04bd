package sql

import (
	"fmt"
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
)

// setPassword recognises SET PASSWORD, which go-mysql-server lacks, at the start
// of a text. It returns the ALTER USER that does the same, and how much of the
// text the statement takes.
func setPassword(s *Session, text string) (alter string, length int, ok bool) {
	words := strings.Fields(text[:min(len(text), 64)])
	if len(words) < 2 || !strings.EqualFold(words[0], "set") || !strings.HasPrefix(strings.ToLower(words[1]), "password") {
		return "", 0, false
	}
	stmts, _, err := parser.New().ParseSQL(text)
	if err != nil || len(stmts) == 0 {
		return "", 0, false
	}
	set, ok := stmts[0].(*ast.SetPwdStmt)
	if !ok {
		return "", 0, false
	}
	user, host := s.Client().User, s.Client().Address
	if set.User != nil && !set.User.CurrentUser {
		user, host = set.User.Username, set.User.Hostname
	}
	length = len(set.OriginalText())
	if len(stmts) == 1 {
		length = len(text)
	}
	return fmt.Sprintf("ALTER USER %s@%s IDENTIFIED BY %s", quoteText(user), quoteText(host), quoteText(set.Password)), length, true
}

// ownSession returns the session of a context, if it is one of ours.
func ownSession(ctx any) (*Session, bool) {
	c, ok := ctx.(*gms.Context)
	if !ok {
		return nil, false
	}
	s, ok := c.Session.(*Session)
	return s, ok
}
