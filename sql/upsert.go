package sql

import (
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"
)

// withUpsertDefaults returns the INSERT with values in place of the DEFAULTs in
// its ON DUPLICATE KEY UPDATE, which go-mysql-server leaves open, or nil if there
// are none. It refuses values for generated columns, which go-mysql-server does in
// all other statements.
func withUpsertDefaults(n *plan.InsertInto) (gms.Node, error) {
	dest, ok := n.Destination.(*plan.InsertDestination)
	if !ok || !n.OnDupExprs.HasUpdates() {
		return nil, nil
	}
	exprs := n.OnDupExprs.AllExpressions()
	var filled []gms.Expression
	for i, e := range n.OnDupExprs.ExplicitUpdateExprs() {
		set, ok := e.(*expression.SetField)
		if !ok {
			continue
		}
		value, err := upsertValue(dest.Sch, set)
		if err != nil {
			return nil, err
		}
		if value != nil {
			if filled == nil {
				filled = append(filled, exprs...)
			}
			filled[i] = expression.NewSetField(set.Left(), value)
		}
	}
	if filled == nil {
		return nil, nil
	}
	out := *n
	var err error
	out.OnDupExprs, err = n.OnDupExprs.WithExpressions(filled)
	return &out, err
}

// upsertValue returns what a column is set to by DEFAULT, nil if it is set to
// something else. Only DEFAULTs are in a wrapper, and stay in one.
func upsertValue(schema gms.Schema, set *expression.SetField) (gms.Expression, error) {
	field, ok := set.Left().(*expression.GetField)
	if !ok {
		return nil, nil
	}
	col := columnOf(schema, field.Name())
	if col == nil {
		return nil, nil
	}
	wrapper, ok := set.Right().(*expression.Wrapper)
	if !ok {
		if col.Generated != nil {
			return nil, gms.ErrGeneratedColumnValue.New(col.Name, col.Source)
		}
		return nil, nil
	}
	def, ok := wrapper.Unwrap().(*expression.DefaultColumn)
	if !ok {
		return nil, nil
	}
	if col.Generated != nil {
		// What it is now: package table computes it anew.
		return expression.WrapExpression(field), nil
	}
	if name := def.Name(); name != "" {
		if col = columnOf(schema, name); col == nil {
			return nil, gms.ErrColumnNotFound.New(name)
		}
	}
	if col.Default == nil {
		return expression.WrapExpression(expression.NewLiteral(nil, gmstypes.Null)), nil
	}
	return expression.WrapExpression(col.Default), nil
}

func columnOf(schema gms.Schema, name string) *gms.Column {
	if i := schema.IndexOfColName(name); i >= 0 {
		return schema[i]
	}
	return nil
}
