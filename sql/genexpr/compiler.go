package genexpr

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	_ "github.com/dolthub/go-mysql-server/sql/variables" // the defaults of sessions
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/generated"
	"fastddl/sql/sqlerr"
	"fastddl/sql/sqltype"
)

// Compiler compiles expressions by GMS. It may be used concurrently.
type Compiler struct {
	catalog *analyzer.Catalog
	// contexts holds those in which nothing but evaluation happens.
	contexts sync.Pool
}

var _ generated.Compiler = (*Compiler)(nil)

// New returns a compiler.
func New() *Compiler {
	c := &Compiler{catalog: analyzer.NewCatalog(gms.NewDatabaseProvider(), gms.EngineOverrides{})}
	c.contexts.New = func() any { return newContext("") }
	return c
}

// session is one that keeps no warnings: nobody reads them.
type session struct{ *gms.BaseSession }

// Warn implements sql.Session.
func (session) Warn(*gms.Warning) {}

// fixedVariables are what an expression may depend on.
var fixedVariables = map[string]string{
	"sql_mode":                 "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
	"time_zone":                "+00:00",
	"character_set_connection": "utf8mb4",
	"collation_connection":     gms.Collation_Default.Name(),
}

// newContext returns the context of a session of which only the collation can
// be chosen; empty is the default. It fails for no value of the fixed variables,
// and leaves out a collation that GMS does not know.
func newContext(collation string) *gms.Context {
	s := session{gms.NewBaseSession()}
	ctx := gms.NewContext(context.Background(), gms.WithSession(s))
	for name, value := range fixedVariables {
		if name == "collation_connection" && collation != "" {
			value = collation
		}
		_ = s.InitSessionVariable(ctx, name, value)
	}
	return ctx
}

// Compile implements generated.Compiler.
func (c *Compiler) Compile(tbl *model.TableInfo, col *model.ColumnInfo) (generated.Expression, error) {
	codec, err := sqltype.NewCodec(col)
	if err != nil {
		return nil, err
	}
	x := &compiled{compiler: c, tbl: tbl, col: col, codec: codec}
	for _, dep := range tbl.Columns {
		if _, ok := col.Dependences[dep.Name.L]; !ok {
			continue
		}
		in := input{offset: dep.Offset}
		if in.codec, err = sqltype.NewCodec(dep); err != nil {
			return nil, err
		}
		x.inputs = append(x.inputs, in)
	}
	p, err := x.program()
	if err != nil {
		return nil, err
	}
	if !deterministic(p.ctx, p.expr) {
		if col.Hidden {
			return nil, dbterror.ErrFunctionalIndexFunctionIsNotAllowed.FastGenByArgs(col.Name.O)
		}
		return nil, dbterror.ErrGeneratedColumnFunctionIsNotAllowed.FastGenByArgs(col.Name.O)
	}
	x.programs.Put(p)
	return x, nil
}

// implicit is the coercibility of a column: whatever has more takes its collation
// from the session.
const implicit = 2

// Resolve calls fn with a generated column's expression. sessionCollated says
// that the session decides by which collation its values are compared.
func (c *Compiler) Resolve(tbl *model.TableInfo, col *model.ColumnInfo,
	fn func(ctx *gms.Context, expr gms.Expression, sessionCollated bool) error) error {
	text, err := Text(col.GeneratedExprString)
	if err != nil {
		return err
	}
	ctx := c.contexts.Get().(*gms.Context)
	defer c.contexts.Put(ctx)
	expr, err := c.resolve(ctx, tbl, text)
	if err != nil {
		return err
	}
	return fn(ctx, expr, sessionCollated(ctx, expr))
}

// sessionCollated: where no column decides the collation, a binary one that is
// the same in all sessions prevails over that of text in a statement.
func sessionCollated(ctx *gms.Context, expr gms.Expression) bool {
	here, coercibility := gms.GetCoercibility(ctx, expr)
	if coercibility <= implicit {
		return false
	}
	there, _ := gms.GetCoercibility(newContext(gms.Collation_utf8mb4_general_ci.Name()), expr)
	return here != there || !strings.HasSuffix(here.Name(), "_bin")
}

func deterministic(ctx *gms.Context, expr gms.Expression) bool {
	pure := true
	transform.InspectExpr(ctx, expr, func(_ *gms.Context, e gms.Expression) bool {
		if n, ok := e.(gms.NonDeterministicExpression); ok && n.IsNonDeterministic() {
			pure = false
		}
		return !pure
	})
	return pure
}

// placeholder is the name of the column that an expression is resolved as.
const placeholder = gms.HiddenSystemColumnPrefix + "expression"

// resolve returns an expression, as [Text] gives it, over the columns of a table,
// for rows that have all of them.
func (c *Compiler) resolve(ctx *gms.Context, tbl *model.TableInfo, text string) (expr gms.Expression, err error) {
	schema, err := schemaOf(tbl)
	if err != nil {
		return nil, err
	}
	schema = append(schema, &gms.Column{
		Name: placeholder, Source: tbl.Name.O, Nullable: true, HiddenSystem: true,
		Generated: gms.NewUnresolvedColumnDefaultValue(text),
	})
	defer func() {
		// GMS's builder gives up by a panic.
		switch p := recover().(type) {
		case nil:
		case error:
			err = sqlerr.Translate(p)
		default:
			panic(p)
		}
	}()
	b := planbuilder.New(ctx, c.catalog, nil)
	b.DisableAuth()
	resolved := b.ResolveSchemaDefaults("", tbl.Name.O, schema)
	return atOffsets(ctx, tbl, resolved[len(resolved)-1].Generated.Expr)
}

// atOffsets makes references to columns those to their places in a row.
func atOffsets(ctx *gms.Context, tbl *model.TableInfo, expr gms.Expression) (gms.Expression, error) {
	expr, _, err := transform.Expr(ctx, expr, func(_ *gms.Context, e gms.Expression) (gms.Expression, transform.TreeIdentity, error) {
		f, ok := e.(*expression.GetField)
		if !ok {
			return e, transform.SameTree, nil
		}
		at := slices.IndexFunc(tbl.Columns, func(col *model.ColumnInfo) bool { return strings.EqualFold(col.Name.L, f.Name()) })
		if at < 0 {
			return nil, transform.SameTree, fmt.Errorf("table %s has no column %s", tbl.Name.O, f.Name())
		}
		return f.WithIndex(at), transform.NewTree, nil
	})
	return expr, err
}

func schemaOf(tbl *model.TableInfo) (gms.Schema, error) {
	schema := make(gms.Schema, 0, len(tbl.Columns)+1)
	for _, info := range tbl.Columns {
		codec, err := sqltype.NewCodec(info)
		if err != nil {
			return nil, err
		}
		col, err := sqltype.Column("", tbl.Name.O, info, codec)
		if err != nil {
			return nil, err
		}
		col.Default, col.OnUpdate, col.Generated = nil, nil, nil
		schema = append(schema, col)
	}
	return schema, nil
}

// compiled is the expression of a column.
type compiled struct {
	compiler *Compiler
	tbl      *model.TableInfo
	col      *model.ColumnInfo
	codec    *sqltype.Codec
	inputs   []input
	// programs are those not in use: GMS's expressions keep state while they are
	// evaluated.
	programs sync.Pool
}

// input is a column that an expression depends on.
type input struct {
	offset int
	codec  *sqltype.Codec
}

// program is an expression ready to be evaluated, by one goroutine at a time.
type program struct {
	ctx  *gms.Context
	expr gms.Expression
	row  gms.Row
}

func (x *compiled) program() (*program, error) {
	text, err := Text(x.col.GeneratedExprString)
	if err != nil {
		return nil, err
	}
	ctx := x.compiler.contexts.Get().(*gms.Context)
	expr, err := x.compiler.resolve(ctx, x.tbl, text)
	if err != nil {
		return nil, err
	}
	return &program{ctx: ctx, expr: expr, row: make(gms.Row, len(x.tbl.Columns))}, nil
}

// Eval implements generated.Expression.
func (x *compiled) Eval(row []types.Datum) (types.Datum, error) {
	p, ok := x.programs.Get().(*program)
	if !ok {
		var err error
		if p, err = x.program(); err != nil {
			return types.Datum{}, err
		}
	}
	defer x.programs.Put(p)
	for _, in := range x.inputs {
		v, err := in.codec.Decode(&row[in.offset], time.UTC)
		if err != nil {
			return types.Datum{}, err
		}
		p.row[in.offset] = v
	}
	v, err := p.expr.Eval(p.ctx, p.row)
	if err != nil {
		return types.Datum{}, coded(err)
	}
	d, err := x.convert(p.ctx, v)
	return d, coded(err)
}
