package stmt

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"fastddl/sql/sqlerr"
)

// adminCommand is an ADMIN statement. As in TiDB it needs the SUPER privilege and
// leaves the session's transaction alone.
type adminCommand struct {
	parser  *Parser
	stmt    *ast.AdminStmt
	columns gms.Schema
	exec    func(c *adminCommand, ctx *gms.Context, env environment) ([]gms.Row, error)
}

func (p *Parser) newAdmin(stmt *ast.AdminStmt) (command, error) {
	c := &adminCommand{parser: p, stmt: stmt, columns: types.OkResultSchema}
	switch stmt.Tp {
	case ast.AdminShowDDL:
		c.columns, c.exec = ownerColumns, (*adminCommand).showDDL
	case ast.AdminShowDDLJobs:
		c.columns, c.exec = JobColumns, (*adminCommand).showJobs
	case ast.AdminShowDDLJobQueries:
		c.columns, c.exec = textColumns("QUERY"), (*adminCommand).showQueries
	case ast.AdminShowDDLJobQueriesWithRange:
		c.columns, c.exec = textColumns("JOB_ID", "QUERY"), (*adminCommand).showQueriesInRange
	case ast.AdminCancelDDLJobs, ast.AdminPauseDDLJobs, ast.AdminResumeDDLJobs:
		c.columns, c.exec = textColumns("JOB_ID", "RESULT"), (*adminCommand).control
	case ast.AdminAlterDDLJob:
		c.exec = (*adminCommand).alterJob
	case ast.AdminCheckTable, ast.AdminCheckIndex:
		c.exec = (*adminCommand).check
	case ast.AdminChecksumTable:
		c.columns, c.exec = checksumColumns, (*adminCommand).checksum
	default:
		words := strings.Fields(strings.ToUpper(stmt.OriginalText()))
		return nil, notSupported(strings.Join(words[:min(3, len(words))], " "))
	}
	return c, nil
}

func (c *adminCommand) schema() gms.Schema { return c.columns }

func (c *adminCommand) readOnly() bool {
	switch c.stmt.Tp {
	case ast.AdminCancelDDLJobs, ast.AdminPauseDDLJobs, ast.AdminResumeDDLJobs, ast.AdminAlterDDLJob:
		return false
	}
	return true
}

func (c *adminCommand) privileges() []privilege { return superPrivilege() }

func (c *adminCommand) run(ctx *gms.Context, env environment) ([]gms.Row, error) {
	return c.exec(c, ctx, env)
}

var (
	ownerColumns = gms.Schema{
		intColumn("SCHEMA_VER"), textColumn("OWNER_ID"), textColumn("OWNER_ADDRESS"),
		textColumn("RUNNING_JOBS"), textColumn("SELF_ID"), textColumn("QUERY"),
	}
	checksumColumns = gms.Schema{
		textColumn("Db_name"), textColumn("Table_name"),
		uintColumn("Checksum_crc64_xor"), uintColumn("Total_kvs"), uintColumn("Total_bytes"),
	}
)

// showDDL is ADMIN SHOW DDL: the owner, and the unfinished jobs with their
// statements.
func (c *adminCommand) showDDL(ctx *gms.Context, _ environment) ([]gms.Row, error) {
	owner, err := c.parser.opts.DDL.Owner(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := c.parser.opts.DDL.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	var running, queries []string
	for _, j := range jobs {
		if j.Done {
			continue
		}
		running = append(running, fmt.Sprintf("ID:%d, Type:%s, State:%s, SchemaState:%s, SchemaID:%d, TableID:%d, RowCount:%d",
			j.ID, j.Type, j.State, j.SchemaState, j.SchemaID, j.TableID, j.RowCount))
		queries = append(queries, j.Query)
	}
	return []gms.Row{{owner.SchemaVersion, owner.OwnerID, owner.OwnerAddress,
		strings.Join(running, "\n"), owner.SelfID, strings.Join(queries, "\n")}}, nil
}

// showQueries is ADMIN SHOW DDL JOB QUERIES id, ...
func (c *adminCommand) showQueries(ctx *gms.Context, _ environment) ([]gms.Row, error) {
	jobs, err := c.parser.opts.DDL.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	var rows []gms.Row
	for _, id := range c.stmt.JobIDs {
		for _, j := range jobs {
			if j.ID == id {
				rows = append(rows, gms.Row{j.Query})
			}
		}
	}
	return rows, nil
}

// showQueriesInRange is ADMIN SHOW DDL JOB QUERIES LIMIT n OFFSET m.
func (c *adminCommand) showQueriesInRange(ctx *gms.Context, _ environment) ([]gms.Row, error) {
	jobs, err := c.parser.opts.DDL.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	limit := c.stmt.LimitSimple
	jobs = jobs[min(limit.Offset, uint64(len(jobs))):]
	jobs = jobs[:min(limit.Count, uint64(len(jobs)))]
	rows := make([]gms.Row, 0, len(jobs))
	for _, j := range jobs {
		rows = append(rows, gms.Row{strconv.FormatInt(j.ID, 10), j.Query})
	}
	return rows, nil
}

// control is ADMIN CANCEL, PAUSE and RESUME DDL JOBS id, ...
func (c *adminCommand) control(ctx *gms.Context, _ environment) ([]gms.Row, error) {
	ddl := c.parser.opts.DDL
	var do func(context.Context, []int64) []error
	switch c.stmt.Tp {
	case ast.AdminPauseDDLJobs:
		do = ddl.Pause
	case ast.AdminResumeDDLJobs:
		do = ddl.Resume
	default:
		do = ddl.Cancel
	}
	ids := c.stmt.JobIDs
	errs := do(ctx, ids)
	rows := make([]gms.Row, 0, len(ids))
	for i, id := range ids {
		result := "successful"
		if i < len(errs) && errs[i] != nil {
			result = "error: " + sqlerr.Translate(errs[i]).Message
		}
		rows = append(rows, gms.Row{strconv.FormatInt(id, 10), result})
	}
	return rows, nil
}

// check is ADMIN CHECK TABLE t, ... and ADMIN CHECK INDEX t i.
func (c *adminCommand) check(ctx *gms.Context, env environment) ([]gms.Row, error) {
	for _, t := range c.stmt.Tables {
		if err := env.mustExist(ctx, t); err != nil {
			return nil, err
		}
		if err := c.parser.opts.Checker.CheckTable(ctx, dbOf(ctx, t), t.Name.O, c.stmt.Index); err != nil {
			return nil, err
		}
	}
	return okRows(), nil
}

// checksum is ADMIN CHECKSUM TABLE t, ...
func (c *adminCommand) checksum(ctx *gms.Context, env environment) ([]gms.Row, error) {
	var rows []gms.Row
	for _, t := range c.stmt.Tables {
		if err := env.mustExist(ctx, t); err != nil {
			return nil, err
		}
		sum, err := c.parser.opts.Checker.Checksum(ctx, dbOf(ctx, t), t.Name.O)
		if err != nil {
			return nil, err
		}
		rows = append(rows, gms.Row{dbOf(ctx, t), t.Name.O, sum.CRC64Xor, sum.TotalKVs, sum.TotalBytes})
	}
	return rows, nil
}

func dbOf(ctx *gms.Context, t *ast.TableName) string {
	if t.Schema.O != "" {
		return t.Schema.O
	}
	return ctx.GetCurrentDatabase()
}

// showJobs is ADMIN SHOW DDL JOBS [n] [WHERE ...]: all unfinished jobs and the n
// newest finished ones.
func (c *adminCommand) showJobs(ctx *gms.Context, env environment) ([]gms.Row, error) {
	filter, err := newFilter(ctx, env.catalog, c.stmt.Where)
	if err != nil {
		return nil, err
	}
	jobs, err := c.parser.opts.DDL.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	finished := int64(defaultFinishedJobs)
	if c.stmt.JobNumber > 0 {
		finished = c.stmt.JobNumber
	}
	var rows []gms.Row
	for _, j := range jobs {
		if j.Done && finished == 0 {
			continue
		}
		row := JobRow(j, env.session.Location())
		ok, err := filter.accepts(ctx, row)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if j.Done {
			finished--
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// defaultFinishedJobs is how many finished jobs ADMIN SHOW DDL JOBS shows.
const defaultFinishedJobs = 10

func unknownColumn(name string) error {
	return sqlerr.New(errno.ErrBadField, name, "where clause")
}
