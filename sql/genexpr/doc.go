// Package genexpr gives the expressions of generated columns and of expression
// indexes their meaning: that of go-mysql-server (GMS), which evaluates the
// statements of clients, so that a filter and an index on the same expression
// cannot disagree.
//
// An expression is evaluated in a session of its own that nobody can change:
// strict, in UTC, with the default collation. What depends on more than that is
// refused by package builder when the column is declared.
package genexpr
