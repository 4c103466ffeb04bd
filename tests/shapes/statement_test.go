package shapes

import (
	"fmt"
	"slices"
	"strings"
)

// indexes is a statement that adds one index or several.
func (t *randomTable) indexes() string {
	r := t.r
	n := pick(r, []int{1, 1, 1, 2, 3})
	var parts []string
	for i := range n {
		parts = append(parts, "add "+t.index(fmt.Sprintf("i%d", i)))
	}
	if t.keyText == "" && chance(r, 3) {
		parts[0] = "add primary key (" + strings.Join(t.keyColumns(false), ", ") + ") nonclustered"
		if t.partOn != nil && chance(r, 2) {
			parts[0] += " global"
		}
	}
	return "alter table t " + strings.Join(parts, ", ")
}

// index is the definition of a random index.
func (t *randomTable) index(name string) string {
	r := t.r
	unique := ""
	keys := t.keyColumns(true)
	if chance(r, 3) {
		unique = "unique "
		// Most unique indexes are over columns that distinguish rows.
		for i, c := range t.key {
			if !chance(r, 4) && !slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k+"(", c.name+"(") || strings.HasPrefix(k, c.name+" ") }) {
				keys = append(keys, t.keyParts[i])
			}
		}
	}
	def := unique + "index " + name + " (" + strings.Join(keys, ", ") + ")"
	if t.partOn != nil && unique != "" && chance(r, 2) {
		def += " global"
	}
	if chance(r, 8) {
		def += " invisible"
	}
	return def
}

// keyColumns are the columns and expressions of an index.
func (t *randomTable) keyColumns(expressions bool) []string {
	r := t.r
	var keys []string
	var used []*column
	multi := false
	for range 1 + r.IntN(1+r.IntN(5)) {
		c := pick(r, t.columns)
		if slices.Contains(used, c) {
			continue
		}
		used = append(used, c)
		key := ""
		switch {
		case expressions && c.family == document && !multi && !chance(r, 6):
			multi = true
			as := pick(r, []string{"unsigned", "signed", "char(10)", "char(2)", "binary(12)", "date", "datetime", "double", "time"})
			path := pick(r, []string{"", "", "", "->'$.a'", "->'$[*]'"})
			if chance(r, 2) {
				as = pick(r, []string{"unsigned", "signed", "char(20)"})
			}
			key = fmt.Sprintf("(cast(%s%s as %s array))", c.name, path, as)
		case expressions && chance(r, 5):
			expr, _ := expression(r, c, pick(r, t.columns))
			if !strings.Contains(expr, "(") || chance(r, 4) {
				expr = "(" + expr + ")"
			}
			if expr[0] != '(' {
				expr = "(" + expr + ")"
			}
			key = expr
			if expr == "("+c.name+")" {
				key = c.key(r)
			}
		case c.family == document:
			continue
		default:
			key = c.key(r)
		}
		if chance(r, 6) {
			key += pick(r, []string{" desc", " asc"})
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		keys = append(keys, pick(r, t.columns).key(r))
	}
	return keys
}
