package stmt

import (
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/sql/sqlerr"
)

// maintenanceCommand is MySQL's CHECK, CHECKSUM, ANALYZE, OPTIMIZE or REPAIR
// TABLE.
type maintenanceCommand struct {
	parser *Parser
	op     string // in lower case
	tables []*ast.TableName
}

// parseMaintenance parses such a statement. ok is false for the forms of ANALYZE
// TABLE that concern histograms, which are the engine's.
func (p *Parser) parseMaintenance(text string, mode mysql.SQLMode) (m *maintenanceCommand, ok bool, err error) {
	s := scanner{text: text}
	op := s.next()
	if word := s.next(); !isTable(word) {
		s.next() // the word was NO_WRITE_TO_BINLOG or LOCAL: routeOf has seen it
	}
	names, options := splitOptions(text[s.pos:], s)
	for _, option := range options {
		if op == "ANALYZE" {
			return nil, false, nil
		}
		if !validOptions[op][option] {
			return nil, false, sqlerr.Syntax(text, strings.LastIndex(strings.ToUpper(text), option))
		}
	}
	// A list of tables is a list of tables in any statement.
	stmt, err := p.parseTiDB("DROP TABLE "+names, mode)
	if err != nil {
		return nil, false, sqlerr.Syntax(text, s.pos)
	}
	drop, isDrop := stmt.(*ast.DropTableStmt)
	if !isDrop || drop.IfExists {
		return nil, false, sqlerr.Syntax(text, s.pos)
	}
	return &maintenanceCommand{parser: p, op: strings.ToLower(op), tables: drop.Tables}, true, nil
}

// validOptions are the words that may follow the tables.
var validOptions = map[string]map[string]bool{
	"CHECK":    {"FOR": true, "UPGRADE": true, "QUICK": true, "FAST": true, "MEDIUM": true, "EXTENDED": true, "CHANGED": true},
	"CHECKSUM": {"QUICK": true, "EXTENDED": true},
	"REPAIR":   {"QUICK": true, "EXTENDED": true, "USE_FRM": true},
}

// splitOptions divides what follows the word TABLE into the list of tables and
// the words behind it. A word is an option if it neither starts a list item nor
// follows a dot.
func splitOptions(rest string, s scanner) (names string, options []string) {
	s.text, s.pos = rest, 0
	end, expectName := len(rest), true
	for {
		s.skip()
		start := s.pos
		if start == len(rest) {
			return rest[:end], options
		}
		if c := rest[start]; c == '`' || c == '"' {
			s.skipQuoted()
			expectName = false
			continue
		}
		switch word := s.next(); {
		case word == "," || word == ".":
			expectName = true
		case expectName:
			expectName = false
		default:
			end = min(end, start)
			options = append(options, word)
		}
	}
}

func (m *maintenanceCommand) schema() gms.Schema {
	if m.op == "checksum" {
		return gms.Schema{textColumn("Table"), {Name: "Checksum", Type: types.Uint64, Nullable: true}}
	}
	return textColumns("Table", "Op", "Msg_type", "Msg_text")
}

func (m *maintenanceCommand) readOnly() bool { return true }

func (m *maintenanceCommand) privileges() []privilege {
	out := onTables(sqlparser.AuthType_SELECT, m.tables)
	if m.op == "analyze" || m.op == "optimize" || m.op == "repair" {
		out = append(out, onTables(sqlparser.AuthType_INSERT, m.tables)...)
	}
	return out
}

func (m *maintenanceCommand) run(ctx *gms.Context, env environment) ([]gms.Row, error) {
	if m.op != "checksum" {
		if err := env.session.CommitImplicitly(ctx); err != nil {
			return nil, err
		}
	}
	var rows []gms.Row
	for _, t := range m.tables {
		if dbOf(ctx, t) == "" {
			return nil, sqlerr.New(errno.ErrNoDB)
		}
		r, err := m.runOn(ctx, env, t)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r...)
	}
	return rows, nil
}

// runOn runs the statement on one table. What is wrong with the table is in the
// rows, as in MySQL; an error means that the statement was interrupted.
func (m *maintenanceCommand) runOn(ctx *gms.Context, env environment, t *ast.TableName) ([]gms.Row, error) {
	name := qualified(t, ctx.GetCurrentDatabase())
	row := func(kind, text string) gms.Row { return gms.Row{name, m.op, kind, text} }

	missing := env.mustExist(ctx, t)
	if m.op == "checksum" {
		return m.checksum(ctx, t, name, missing)
	}
	if missing != nil {
		return []gms.Row{row("Error", sqlerr.Translate(missing).Message), row("status", "Operation failed")}, nil
	}
	switch m.op {
	case "check":
		if err := m.parser.opts.Checker.CheckTable(ctx, dbOf(ctx, t), t.Name.O, ""); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return []gms.Row{row("Error", sqlerr.Translate(err).Message), row("error", "Corrupt")}, nil
		}
		return []gms.Row{row("status", "OK")}, nil
	case "analyze":
		return []gms.Row{row("status", "OK")}, nil
	default:
		return []gms.Row{row("note", "The storage engine for the table doesn't support "+m.op)}, nil
	}
}

func (m *maintenanceCommand) checksum(ctx *gms.Context, t *ast.TableName, name string, missing error) ([]gms.Row, error) {
	if missing != nil {
		e := sqlerr.Translate(missing)
		addWarnings(ctx, []Warning{{Level: levelError, Code: uint16(e.Num), Message: e.Message}})
		return []gms.Row{{name, nil}}, nil
	}
	sum, err := m.parser.opts.Checker.Checksum(ctx, dbOf(ctx, t), t.Name.O)
	if err != nil {
		return nil, err
	}
	return []gms.Row{{name, sum.CRC64Xor}}, nil
}

// lockTables is LOCK TABLES.
type lockTables struct{}

func (lockTables) schema() gms.Schema { return types.OkResultSchema }

func (lockTables) readOnly() bool { return true }

func (lockTables) privileges() []privilege { return nil }

func (lockTables) run(ctx *gms.Context, env environment) ([]gms.Row, error) {
	if err := env.session.CommitImplicitly(ctx); err != nil {
		return nil, err
	}
	addWarnings(ctx, []Warning{{Level: LevelWarning, Code: errno.ErrNotSupportedYet, Message: "LOCK TABLES is accepted but locks nothing"}})
	return okRows(), nil
}
