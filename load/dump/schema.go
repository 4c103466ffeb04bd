package dump

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver" // the parser needs an implementation of its values
)

// spatial are the column types that TiDB has not, in a definition.
var spatial = regexp.MustCompile("(?i)(?:`|\\s)(?:/\\*!\\d*\\s*)?(GEOMETRY|POINT|LINESTRING|POLYGON|MULTIPOINT|MULTILINESTRING|MULTIPOLYGON|GEOMETRYCOLLECTION|GEOMCOLLECTION)\\b")

// checkTable parses the definition of a table by TiDB's parser. It returns what the server will leave out of it, and an error
// if the server cannot create it.
func checkTable(p *parser.Parser, t *Table) (left []LeftOut, err error) {
	for _, text := range t.SQL {
		stmts, _, err := p.ParseSQL(text)
		if err != nil {
			if m := spatial.FindStringSubmatch(text); m != nil {
				return nil, fmt.Errorf("table %s has a column of type %s, which TiDB has not", t.Name, strings.ToUpper(m[1]))
			}
			return nil, fmt.Errorf("table %s: %w", t.Name, shortened(err))
		}
		for _, stmt := range stmts {
			left = append(left, leftOutOf(t.Name, stmt)...)
			t.generated = t.generated || hasGenerated(stmt)
		}
	}
	return left, nil
}

// hasGenerated reports whether a definition has generated columns.
func hasGenerated(stmt ast.StmtNode) bool {
	create, ok := stmt.(*ast.CreateTableStmt)
	if !ok {
		return false
	}
	for _, c := range create.Cols {
		for _, o := range c.Options {
			if o.Tp == ast.ColumnOptionGenerated {
				return true
			}
		}
	}
	return false
}

// leftOutOf returns what TiDB parses in a definition and does not do.
func leftOutOf(name Name, stmt ast.StmtNode) (left []LeftOut) {
	constraint := func(c *ast.Constraint) {
		if c != nil && c.Tp == ast.ConstraintFulltext {
			left = append(left, LeftOut{Kind: "FULLTEXT INDEX " + c.Name + " of table", Name: name, Reason: "TiDB builds none for this index"})
		}
	}
	switch s := stmt.(type) {
	case *ast.CreateTableStmt:
		for _, c := range s.Constraints {
			constraint(c)
		}
	case *ast.AlterTableStmt:
		for _, spec := range s.Specs {
			constraint(spec.Constraint)
		}
	}
	return left
}

// checkObjects parses the definitions of databases and views.
func checkObjects(p *parser.Parser, kind string, objects []Object) error {
	var problems []error
	for _, o := range objects {
		for _, text := range o.SQL {
			if _, _, err := p.ParseSQL(text); err != nil {
				problems = append(problems, fmt.Errorf("%s %s: %w", kind, o.Name, shortened(err)))
			}
		}
	}
	return errors.Join(problems...)
}

// maxErrorText is how much of a parser's error is shown, which quotes the rest of the statement.
const maxErrorText = 200

func shortened(err error) error {
	if text := err.Error(); len(text) > maxErrorText {
		return errors.New(strings.ToValidUTF8(text[:maxErrorText], "") + "...")
	}
	return err
}
