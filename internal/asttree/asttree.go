// Package asttree walks the trees of parsed statements. Statements hold others (EXPLAIN, TRACE, PLAN REPLAYER, BATCH,
// INSERT ... SELECT, UNION), so a judgement by the top statement alone overlooks what it executes.
package asttree

import "github.com/pingcap/tidb/pkg/parser/ast"

// Visit calls fn for a node and for all nodes inside of it, parents first, until fn returns an error, and returns that error.
func Visit(root ast.Node, fn func(ast.Node) error) error {
	v := visitor{fn: func(n ast.Node) (inside bool, err error) { return true, fn(n) }}
	root.Accept(&v)
	return v.err
}

// Walk calls fn for a node and, if fn returns true, for those directly inside of it, and so on.
func Walk(root ast.Node, fn func(ast.Node) (inside bool)) {
	root.Accept(&visitor{fn: func(n ast.Node) (bool, error) { return fn(n), nil }})
}

type visitor struct {
	fn  func(ast.Node) (inside bool, err error)
	err error
}

// Enter implements ast.Visitor.
func (v *visitor) Enter(n ast.Node) (ast.Node, bool) {
	inside := false
	if v.err == nil {
		inside, v.err = v.fn(n)
	}
	return n, !inside || v.err != nil
}

// Leave implements ast.Visitor.
func (v *visitor) Leave(n ast.Node) (ast.Node, bool) { return n, v.err == nil }

// Copy returns a copy of a statement's node, to change fields of it. Both keep the statement's text: TiDB decodes that once for all copies,
// into the one that is asked first (node.Text in ast/base.go of its parser), so the original is asked before it is copied.
func Copy[N any, P interface {
	*N
	Text() string
}](stmt P) N {
	_ = stmt.Text()
	return *stmt
}
