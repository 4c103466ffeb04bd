package peer

import (
	"fmt"
	"strconv"
	"strings"
)

// Part is a key part: a column, or the first Prefix characters of one.
type Part struct {
	Column string
	Prefix int
}

// Index is a definition.
type Index struct {
	Name   string
	Unique bool
	Parts  []Part
}

// Case is what is added in one measurement.
type Case struct {
	Name    string
	Title   string
	Indexes []Index
}

// Cases are all cases, the plainest first.
func Cases() []Case {
	return []Case{
		{Name: "int", Title: "INT key (k)", Indexes: []Index{{Name: "i_k", Parts: parts("k")}}},
		{Name: "char", Title: "CHAR(120) key (c)", Indexes: []Index{{Name: "i_c", Parts: parts("c")}}},
		{Name: "composite", Title: "composite (k, c(20))", Indexes: []Index{{Name: "i_kc", Parts: parts("k", "c(20)")}}},
		{Name: "unique", Title: "unique (k, id)", Indexes: []Index{{Name: "u_k", Unique: true, Parts: parts("k", "id")}}},
		{Name: "eight", Title: "8 narrow indexes at once", Indexes: []Index{
			{Name: "e_1", Parts: parts("k")},
			{Name: "e_2", Parts: parts("id", "k")},
			{Name: "e_3", Unique: true, Parts: parts("k", "id")},
			{Name: "e_4", Parts: parts("c(8)")},
			{Name: "e_5", Parts: parts("c(8)", "k")},
			{Name: "e_6", Parts: parts("pad(8)")},
			{Name: "e_7", Parts: parts("pad(8)", "k")},
			{Name: "e_8", Parts: parts("k", "pad(8)")},
		}},
	}
}

// CaseNamed finds a case.
func CaseNamed(name string) (Case, error) {
	var names []string
	for _, c := range Cases() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Case{}, fmt.Errorf("case %q is none of %s", name, strings.Join(names, ", "))
}

// parts reads key parts as MySQL writes them, such as k or c(20).
func parts(texts ...string) []Part {
	out := make([]Part, len(texts))
	for i, text := range texts {
		column, prefix, found := strings.Cut(strings.TrimSuffix(text, ")"), "(")
		out[i].Column = column
		if found {
			out[i].Prefix, _ = strconv.Atoi(prefix) // of this file's own definitions
		}
	}
	return out
}

// mysqlAdd is what follows ALTER TABLE t.
func (c Case) mysqlAdd() string {
	clauses := make([]string, len(c.Indexes))
	for i, index := range c.Indexes {
		keys := make([]string, len(index.Parts))
		for j, p := range index.Parts {
			keys[j] = p.Column
			if p.Prefix > 0 {
				keys[j] = fmt.Sprintf("%s(%d)", p.Column, p.Prefix)
			}
		}
		clauses[i] = fmt.Sprintf("ADD %sINDEX %s (%s)", index.unique(), index.Name, strings.Join(keys, ", "))
	}
	return strings.Join(clauses, ", ")
}

// postgresCreate is the statement for one index. PostgreSQL has no prefix keys;
// an expression gives the same keys.
func (i Index) postgresCreate(table string, concurrently bool) string {
	keys := make([]string, len(i.Parts))
	for j, p := range i.Parts {
		keys[j] = p.Column
		if p.Prefix > 0 {
			keys[j] = fmt.Sprintf("left(%s, %d)", p.Column, p.Prefix)
		}
	}
	mode := ""
	if concurrently {
		mode = "CONCURRENTLY "
	}
	return fmt.Sprintf("CREATE %sINDEX %s%s ON %s (%s)", i.unique(), mode, i.Name, table, strings.Join(keys, ", "))
}

func (i Index) unique() string {
	if i.Unique {
		return "UNIQUE "
	}
	return ""
}
