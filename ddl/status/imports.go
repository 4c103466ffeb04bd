package status

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	sess "github.com/pingcap/tidb/pkg/ddl/session"
	"github.com/pingcap/tidb/pkg/domain/infosync"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"go.uber.org/zap"

	"fastddl/ddl/session"
	"fastddl/internal/asttree"
	"fastddl/internal/errs"
)

// activeImport is an import of TiDB's into a table that has not ended; the states are those of pkg/executor/importer/job.go.
const activeImport = `SELECT id FROM mysql.tidb_import_jobs WHERE status IN ('pending', 'running') AND table_id = %? LIMIT 1`

// ImportInto returns what a job waits for before S: what imports into a table, or may; empty if there is nothing. Statements are looked for before jobs: a statement has made
// its plan, by the schema of then, long before there is a job of it, when it has listed its files.
func (w *Waits) ImportInto(ctx context.Context, tableID int64) (what string, err error) {
	what, err = w.importStatement(ctx, tableID)
	if what != "" || err != nil {
		return what, err
	}
	rows, err := w.Sessions.Query(ctx, activeImport, tableID)
	if err != nil {
		return "", fmt.Errorf("look for imports into the table: %w", err)
	}
	if len(rows) > 0 {
		return fmt.Sprintf("IMPORT INTO the table, import job %d", rows[0].GetInt64(0)), nil
	}
	return "", nil
}

// importStatement names a statement that imports into a table, if there is one, or a server that may execute one.
func (w *Waits) importStatement(ctx context.Context, tableID int64) (what string, err error) {
	if sm := w.Domain.InfoSyncer().GetSessionManager(); sm != nil {
		for _, p := range sm.ShowProcessList() {
			if p.Command != mysql.ComSleep && w.importsInto(ctx, tableID, p.DB, p.Info) {
				return fmt.Sprintf("IMPORT INTO the table, a statement of connection %d", p.ID), nil
			}
		}
	}
	if !w.Clustered {
		return "", nil
	}
	return w.importsElsewhere(ctx, tableID)
}

// unreadImport is the beginning of a text that may be IMPORT INTO, or execute it, behind comments.
var unreadImport = regexp.MustCompile(`(?is)^\s*(/\*.*?\*/\s*|(--|#)[^\n]*\n\s*)*(import\b|(explain|desc|describe|trace|plan)\b.*\bimport\s+into\b)`)

// importsInto says that a statement is, or may be, IMPORT INTO a table; db is the database that it is executed in. A text that cannot be
// parsed, since it is shown without its end, may be if it begins like one.
func (w *Waits) importsInto(ctx context.Context, tableID int64, db, text string) (found bool) {
	if !strings.Contains(strings.ToUpper(text), "IMPORT") {
		return false
	}
	p := parser.New()
	statement, err := p.ParseOneStmt(text, "", "")
	if err != nil {
		p.SetSQLMode(mysql.ModeANSIQuotes)
		statement, err = p.ParseOneStmt(text, "", "")
	}
	if err != nil {
		return unreadImport.MatchString(text)
	}
	asttree.Walk(statement, func(n ast.Node) bool { // EXPLAIN ANALYZE executes one
		into, ok := n.(*ast.ImportIntoStmt)
		if !ok {
			return true
		}
		schema := into.Table.Schema
		if schema.L == "" {
			schema = pmodel.NewCIStr(db)
		}
		table, err := w.Domain.InfoSchema().TableByName(ctx, schema, into.Table.Name)
		found = err == nil && table.Meta().ID == tableID
		return false
	})
	return found
}

// runningImports are statements that may be IMPORT INTO.
const runningImports = `SELECT instance, db, info FROM information_schema.cluster_processlist
	WHERE command = 'Query' AND UPPER(info) LIKE '%IMPORT%INTO%'`

// importsTimeout bounds the query of the statements of other servers. TiDB asks a server that does not answer for
// most of a minute, mutePatience: where one cannot be asked the query lasts until TiDB leaves that out.
const (
	importsTimeout = 5 * time.Second
	mutePatience   = time.Minute
)

// importsElsewhere says what a job waits for on other servers: a statement IMPORT INTO that brings rows into a table, or a server
// that does not say what it executes. FROM SELECT there is no job for such a statement, and from files not yet, and the metadata lock
// does not know of it. So a server that does not answer is waited for until it does, or until it is no server of the cluster any more. One
// without a status port can never be asked, and is left out.
func (w *Waits) importsElsewhere(ctx context.Context, tableID int64) (what string, err error) {
	servers, err := infosync.GetAllServerInfo(ctx)
	if err != nil {
		return "", fmt.Errorf("list the servers: %w", err)
	}
	if len(servers) < 2 {
		return "", nil
	}
	mute := 0 // without a status port, by which they are asked
	for _, server := range servers {
		if server.StatusPort == 0 {
			mute++
		}
	}
	patience := importsTimeout
	if mute > 0 {
		patience = mutePatience
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, silent, err := w.queryServers(asking, runningImports)
	var unanswered error
	if len(silent) > mute {
		unanswered = silent[0]
	}
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil && asking.Err() != nil:
		unanswered = errors.New("a server does not answer")
	case err != nil:
		return "", fmt.Errorf("look for imports into the table on other servers: %w", err)
	}
	for _, row := range rows {
		if w.importsInto(ctx, tableID, session.TextAt(row, 1), session.TextAt(row, 2)) {
			return "IMPORT INTO the table, a statement on " + session.TextAt(row, 0), nil
		}
	}
	if unanswered != nil {
		w.Logger.Warn("a build waits for a server that does not say what it imports", zap.Error(unanswered))
		return "other servers to say what they import: " + unanswered.Error(), nil
	}
	return "", nil
}

// queryServers runs a statement that asks all servers of the cluster. TiDB leaves out those that do not answer, with a warning for each.
func (w *Waits) queryServers(ctx context.Context, query string) (rows []chunk.Row, silent []error, err error) {
	err = w.Sessions.With(func(se *sess.Session) error {
		if rows, err = se.Execute(session.Internal(ctx), query, "index_build"); err != nil {
			return err
		}
		for _, warning := range se.GetSessionVars().StmtCtx.GetWarnings() {
			silent = append(silent, errs.OneLine(warning.Err))
		}
		return nil
	})
	return rows, silent, err
}
