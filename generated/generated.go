package generated

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
)

// Compiler understands the expressions of generated columns. It may be used
// concurrently.
type Compiler interface {
	// Infer returns the type of the values of an expression over a table's
	// columns, or an error with MySQL's number if no index can be made of them.
	// Where no column decides the collation of a string, collation does.
	Infer(tbl *model.TableInfo, expr, collation string) (*types.FieldType, error)
	// Compile returns the expression of a generated column of tbl.
	Compile(tbl *model.TableInfo, col *model.ColumnInfo) (Expression, error)
}

// Expression computes the value of one generated column. It may be used
// concurrently.
type Expression interface {
	// Eval returns the value, converted to the column's type. row is a row over
	// all columns of the definition, in which those that the expression depends
	// on are set; TIMESTAMPs are in UTC. The value may share memory with row.
	Eval(row []types.Datum) (types.Datum, error)
}

// ErrNoCompiler says that a table has generated columns where nobody said how to
// compute them.
var ErrNoCompiler = errors.New("generated columns cannot be computed here")

// ValueError says that a generated column has no value for a row.
type ValueError struct {
	Column string
	Err    error
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("value of generated column %s: %v", e.Column, e.Err)
}

// Permanent says that trying again is no use.
func (e *ValueError) Permanent() bool { return true }

// Unwrap returns what the evaluation failed with.
func (e *ValueError) Unwrap() error { return e.Err }

// Columns are the generated columns of one version of a table. They are
// immutable and may be used concurrently.
type Columns struct {
	tbl *model.TableInfo
	// exprs are the compiled expressions by the column's offset, nil for ordinary
	// columns; inputs the offsets of the columns that each depends on.
	exprs  []Expression
	inputs [][]int
}

// Compile compiles the generated columns of a table; it returns nil if there are
// none.
func Compile(tbl *model.TableInfo, c Compiler) (*Columns, error) {
	if !slices.ContainsFunc(tbl.Columns, (*model.ColumnInfo).IsGenerated) {
		return nil, nil
	}
	if c == nil {
		return nil, fmt.Errorf("table %s: %w", tbl.Name.O, ErrNoCompiler)
	}
	cols := &Columns{tbl: tbl, exprs: make([]Expression, len(tbl.Columns)), inputs: make([][]int, len(tbl.Columns))}
	for i, col := range tbl.Columns {
		if !col.IsGenerated() {
			continue
		}
		var err error
		if cols.exprs[i], err = c.Compile(tbl, col); err != nil {
			return nil, fmt.Errorf("generated column %s of table %s: %w", col.Name.O, tbl.Name.O, err)
		}
		if cols.inputs[i], err = inputs(tbl, col); err != nil {
			return nil, err
		}
	}
	return cols, nil
}

func inputs(tbl *model.TableInfo, col *model.ColumnInfo) ([]int, error) {
	var out []int
	for name := range col.Dependences {
		dep := model.FindColumnInfo(tbl.Columns, name)
		if dep == nil {
			return nil, fmt.Errorf("generated column %s of table %s depends on column %s, which is gone", col.Name.O, tbl.Name.O, name)
		}
		out = append(out, dep.Offset)
	}
	slices.Sort(out)
	return out, nil
}

// Plan computes some generated columns of rows. It is immutable and may be used
// concurrently.
type Plan struct {
	// Inputs are the offsets of the columns that a row must have to begin with, in
	// ascending order: the wanted ones that are stored, and what the others are
	// computed from.
	Inputs []int
	steps  []step
}

type step struct {
	col  *model.ColumnInfo
	expr Expression
}

// Virtual returns how to compute those of the columns at the given offsets that
// are virtual, or nil if none is. STORED columns are inputs.
func (c *Columns) Virtual(offsets []int) *Plan {
	return c.plan(offsets, (*model.ColumnInfo).IsVirtualGenerated)
}

// Stored returns how to compute all STORED columns of a row that is written, or
// nil if there are none.
func (c *Columns) Stored() *Plan {
	if c == nil {
		return nil
	}
	var offsets []int
	for _, col := range c.tbl.Columns {
		if col.IsGenerated() && col.GeneratedStored {
			offsets = append(offsets, col.Offset)
		}
	}
	return c.plan(offsets, (*model.ColumnInfo).IsGenerated)
}

func (c *Columns) plan(offsets []int, computed func(*model.ColumnInfo) bool) *Plan {
	if c == nil {
		return nil
	}
	p := &Plan{}
	seen := make([]bool, len(c.tbl.Columns))
	var visit func(at int)
	visit = func(at int) {
		if seen[at] {
			return
		}
		seen[at] = true
		col := c.tbl.Columns[at]
		if !computed(col) {
			p.Inputs = append(p.Inputs, at)
			return
		}
		for _, in := range c.inputs[at] {
			visit(in)
		}
		p.steps = append(p.steps, step{col, c.exprs[at]})
	}
	for _, at := range offsets {
		visit(at)
	}
	if len(p.steps) == 0 {
		return nil
	}
	slices.Sort(p.Inputs)
	return p
}

// Fill sets the columns that the plan computes in a row over all columns of the
// definition. It fails with a *ValueError if there is no value. A nil plan has
// nothing to do.
func (p *Plan) Fill(row []types.Datum) error {
	if p == nil {
		return nil
	}
	for _, s := range p.steps {
		d, err := s.expr.Eval(row)
		if err != nil {
			return &ValueError{Column: s.col.Name.O, Err: err}
		}
		if d.Kind() == types.KindString {
			d.SetString(d.GetString(), s.col.GetCollate())
		}
		row[s.col.Offset] = d
	}
	return nil
}
