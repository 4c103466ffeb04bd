package sqlerr

import (
	"regexp"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

const fieldList = "field list"

// clause names the clause of the statement in which a column of the given name
// first stands, as MySQL's error texts name it.
func (s Statement) clause(column string) string {
	if s.Text == "" {
		return fieldList
	}
	stmt, err := sqlparser.Parse(s.Text)
	if err != nil {
		return fieldList
	}
	if i := strings.LastIndexByte(column, '.'); i >= 0 {
		column = column[i+1:]
	}
	found := ""
	look := func(name string, nodes ...sqlparser.SQLNode) {
		if found == "" && mentions(column, nodes...) {
			found = name
		}
	}
	// Walk cannot fail: the visitor returns no error.
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.Select:
			look(fieldList, n.SelectExprs)
			for _, from := range n.From {
				lookJoins(from, look)
			}
			look("where clause", n.Where)
			look("group statement", n.GroupBy)
			look("having clause", n.Having)
			look("order clause", n.OrderBy)
		case *sqlparser.Insert:
			return false, nil
		case *sqlparser.Update:
			look(fieldList, n.Exprs)
			look("where clause", n.Where)
			look("order clause", n.OrderBy)
		case *sqlparser.Delete:
			look("where clause", n.Where)
			look("order clause", n.OrderBy)
		}
		return found == "", nil
	}, stmt)
	if found == "" {
		return fieldList
	}
	return found
}

// assigns reports whether the statement is a SET of the variable: for one that
// does not exist go-mysql-server complains about a column.
func (s Statement) assigns(variable string) bool {
	stmt, err := sqlparser.Parse(s.Text)
	if err != nil {
		return false
	}
	set, ok := stmt.(*sqlparser.Set)
	if !ok {
		return false
	}
	for _, e := range set.Exprs {
		if strings.EqualFold(e.Name.String(), variable) {
			return true
		}
	}
	return false
}

func lookJoins(from sqlparser.TableExpr, look func(string, ...sqlparser.SQLNode)) {
	join, ok := from.(*sqlparser.JoinTableExpr)
	if !ok {
		return
	}
	lookJoins(join.LeftExpr, look)
	lookJoins(join.RightExpr, look)
	if join.Condition.On != nil {
		look("on clause", join.Condition.On)
	}
}

// mentions reports whether one of the nodes holds a column of the given name,
// not counting subqueries, which have clauses of their own.
func mentions(column string, nodes ...sqlparser.SQLNode) bool {
	found := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.ColName:
			if n != nil && strings.EqualFold(n.Name.String(), column) {
				found = true
			}
		case *sqlparser.Subquery:
			return false, nil
		}
		return !found, nil
	}, nodes...)
	return found
}

// database is the database of a table or routine named in the statement: its
// qualifier there, or the current one.
func (s Statement) database(name string) string {
	if name != "" {
		qualified := regexp.MustCompile("(?i)(?:`([^`]+)`|(\\w+))\\s*\\.\\s*`?" + regexp.QuoteMeta(name) + "\\b")
		if m := qualified.FindStringSubmatch(s.Text); m != nil {
			return m[1] + m[2]
		}
	}
	return s.DB
}

// command is the first word of the statement, in capitals.
func (s Statement) command() string {
	if f := strings.Fields(s.Text); len(f) > 0 {
		return strings.ToUpper(f[0])
	}
	return "SELECT"
}
