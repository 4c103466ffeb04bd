package stmt

import (
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// route is who takes a statement.
type route int

const (
	// routeEngine: go-mysql-server.
	routeEngine route = iota
	// routeTiDB: TiDB's parser, then ddl or an ADMIN statement of ours.
	routeTiDB
	// routeMaintenance: CHECK TABLE and its like, which TiDB's parser knows in
	// part only.
	routeMaintenance
)

// routeOf decides by the first words of a statement. Statements that are not
// ours cost the look at one word.
func routeOf(text string) route {
	s := scanner{text: text}
	switch s.next() {
	case "ADMIN", "TRUNCATE":
		return routeTiDB
	case "CREATE":
		return routeOfCreate(&s)
	case "ALTER", "DROP":
		return routeOfObject(&s)
	case "RENAME":
		return routeIf(isTable(s.next()), routeTiDB)
	case "ANALYZE", "CHECK", "CHECKSUM", "OPTIMIZE", "REPAIR":
		word := s.next()
		if word == "NO_WRITE_TO_BINLOG" || word == "LOCAL" {
			word = s.next()
		}
		return routeIf(isTable(word), routeMaintenance)
	}
	return routeEngine
}

func routeIf(ours bool, r route) route {
	if ours {
		return r
	}
	return routeEngine
}

func isTable(word string) bool { return word == "TABLE" || word == "TABLES" }

func routeOfCreate(s *scanner) route {
	word := s.next()
	switch word {
	case "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "ONLINE", "OFFLINE":
		return routeIf(s.next() == "INDEX", routeTiDB)
	case "TEMPORARY":
		return routeIf(isTable(s.next()), routeTiDB)
	case "GLOBAL":
		return routeIf(s.next() == "TEMPORARY", routeTiDB)
	}
	return routeIf(isSchemaObject(word), routeTiDB)
}

func routeOfObject(s *scanner) route {
	word := s.next()
	if word == "IGNORE" || word == "TEMPORARY" || word == "GLOBAL" {
		for word == "IGNORE" || word == "TEMPORARY" || word == "GLOBAL" {
			word = s.next()
		}
		return routeIf(isTable(word), routeTiDB)
	}
	return routeIf(isSchemaObject(word), routeTiDB)
}

func isSchemaObject(word string) bool {
	return isTable(word) || word == "INDEX" || word == "DATABASE" || word == "SCHEMA"
}

// changesSchema reports whether a statement that vitess parsed is data
// definition of tables, indexes or databases: one whose words did not show it.
func changesSchema(stmt sqlparser.Statement) bool {
	switch stmt := stmt.(type) {
	case *sqlparser.DBDDL, *sqlparser.AlterTable:
		return true
	case *sqlparser.DDL:
		if stmt.ViewSpec != nil || stmt.TriggerSpec != nil || stmt.ProcedureSpec != nil || stmt.EventSpec != nil {
			return false
		}
		return stmt.TableSpec != nil || stmt.IndexSpec != nil || stmt.OptLike != nil || stmt.OptSelect != nil ||
			len(stmt.FromTables) > 0 || len(stmt.ToTables) > 0 || strings.EqualFold(stmt.Action, sqlparser.TruncateStr)
	}
	return false
}

// Locks reports whether a statement reads rows FOR UPDATE or FOR SHARE.
// Sessions ask it for prepared statements, which do not pass the parser again.
func Locks(stmt sqlparser.Statement) bool {
	switch stmt := stmt.(type) {
	case *sqlparser.Select:
		return stmt.Lock != nil && stmt.Lock.Type != ""
	case *sqlparser.SetOp:
		return (stmt.Lock != nil && stmt.Lock.Type != "") || Locks(stmt.Left) || Locks(stmt.Right)
	case *sqlparser.ParenSelect:
		return Locks(stmt.Select)
	case *sqlparser.Insert:
		if rows, ok := stmt.Rows.(sqlparser.SelectStatement); ok {
			return Locks(rows)
		}
	}
	return false
}
