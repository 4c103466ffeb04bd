package stmt

import (
	"context"
	"errors"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"fastddl/sql/sqlerr"
)

// command is one of our statements, ready to run. It may run several times, if
// it was prepared.
type command interface {
	// schema is that of the rows; types.OkResultSchema if there are none.
	schema() gms.Schema
	readOnly() bool
	// privileges are those that the user must have.
	privileges() []privilege
	run(ctx *gms.Context, env environment) ([]gms.Row, error)
}

// environment is what a command runs in.
type environment struct {
	session Session
	catalog gms.Catalog
}

// inject makes a command into a statement for the engine.
func inject(c command) sqlparser.Statement {
	return sqlparser.InjectedStatement{
		// The privileges are checked by the node, which can ask for several.
		Auth:      sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE},
		Statement: injectable{c},
	}
}

type injectable struct{ command command }

var _ sqlparser.Injectable = injectable{}

// WithResolvedChildren implements sqlparser.Injectable.
func (i injectable) WithResolvedChildren(context.Context, []any) (any, error) {
	return &node{command: i.command}, nil
}

// node is the plan of a statement of ours.
type node struct {
	command command
	catalog gms.DatabaseProvider
}

var (
	_ gms.ExecSourceRel  = (*node)(nil)
	_ gms.MultiDatabaser = (*node)(nil)
)

// DatabaseProvider implements sql.MultiDatabaser.
func (n *node) DatabaseProvider() gms.DatabaseProvider { return n.catalog }

// WithDatabaseProvider implements sql.MultiDatabaser: through it the planner
// hands us its catalog.
func (n *node) WithDatabaseProvider(p gms.DatabaseProvider) (gms.Node, error) {
	return &node{command: n.command, catalog: p}, nil
}

// Resolved implements sql.Node.
func (n *node) Resolved() bool { return true }

// String implements sql.Node.
func (n *node) String() string { return "fastddl statement" }

// Schema implements sql.Node.
func (n *node) Schema(*gms.Context) gms.Schema { return n.command.schema() }

// Children implements sql.Node.
func (n *node) Children() []gms.Node { return nil }

// WithChildren implements sql.Node.
func (n *node) WithChildren(_ *gms.Context, children ...gms.Node) (gms.Node, error) {
	if len(children) != 0 {
		return nil, gms.ErrInvalidChildrenNumber.New(n, len(children), 0)
	}
	return n, nil
}

// IsReadOnly implements sql.Node.
func (n *node) IsReadOnly() bool { return n.command.readOnly() }

// RowIter implements sql.ExecSourceRel: it runs the statement.
func (n *node) RowIter(ctx *gms.Context, _ gms.Row) (gms.RowIter, error) {
	rows, err := n.run(ctx)
	if err != nil {
		return nil, sqlerr.Statement{DB: ctx.GetCurrentDatabase(), Text: ctx.Query()}.Translate(err)
	}
	return gms.RowsToRowIter(rows...), nil
}

func (n *node) run(ctx *gms.Context) ([]gms.Row, error) {
	session, ok := ctx.Session.(Session)
	if !ok {
		return nil, errors.New("stmt: the session is of another engine")
	}
	catalog, ok := n.catalog.(gms.Catalog)
	if !ok {
		return nil, errors.New("stmt: the statement has no catalog")
	}
	if err := authorize(ctx, catalog, n.command.privileges()); err != nil {
		return nil, err
	}
	return n.command.run(ctx, environment{session: session, catalog: catalog})
}

// okRows is the result of a statement that returns no rows.
func okRows() []gms.Row { return []gms.Row{gms.NewRow(types.NewOkResult(0))} }

// addWarnings puts warnings into the session, for SHOW WARNINGS.
func addWarnings(ctx *gms.Context, warnings []Warning) {
	for _, w := range warnings {
		ctx.Session.Warn(&gms.Warning{Level: w.Level, Code: int(w.Code), Message: w.Message})
	}
}
