package model

import (
	"fmt"
	"math/rand"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
)

const dbName = "test"

var collations = []string{"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci"}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.Intn(len(from))] }

// oneIn is true once in n times.
func oneIn(rng *rand.Rand, n int) bool { return rng.Intn(n) == 0 }

// randomTable returns a CREATE TABLE statement for a table with the columns id,
// k, s and n and some others, with one of the kinds of primary key.
func randomTable(rng *rand.Rand, name string) string {
	varchar := "VARCHAR(40) NOT NULL COLLATE " + pick(rng, collations...)
	columns := []string{
		"id " + pick(rng, "BIGINT", "BIGINT UNSIGNED", "INT") + " NOT NULL",
		"k INT",
		"s " + varchar,
		"n BIGINT",
	}
	for _, c := range []string{
		"d DECIMAL(12,3)",
		"t " + pick(rng, "DATETIME(3)", "TIMESTAMP NULL", "DATE"),
		"e ENUM('red','green','blue') NOT NULL",
		"b " + pick(rng, "BLOB", "TEXT", "VARBINARY(30)"),
		"f DOUBLE",
	} {
		if rng.Intn(2) == 0 {
			columns = append(columns, c)
		}
	}
	columns = append(columns, pick(rng,
		"PRIMARY KEY (id) CLUSTERED",
		"PRIMARY KEY (s, id) CLUSTERED",
		"PRIMARY KEY (s(3), id) CLUSTERED",
		"PRIMARY KEY (id) NONCLUSTERED",
		"PRIMARY KEY (id, s(2)) NONCLUSTERED",
		"KEY (id)",
	))
	if rng.Intn(2) == 0 {
		columns = append(columns, "UNIQUE KEY u (n, id)")
	}
	return fmt.Sprintf("CREATE TABLE %s (%s)", name, strings.Join(columns, ", "))
}

// addedColumns are the definitions of columns that are added later; there is no
// NOT NULL column without a default among them.
var addedColumns = []string{
	"INT NOT NULL DEFAULT 7",
	"BIGINT",
	"VARCHAR(20) NOT NULL DEFAULT 'Added ' COLLATE utf8mb4_general_ci",
	"DECIMAL(8,2) DEFAULT 1.50",
	"DATETIME NOT NULL DEFAULT '2024-02-29 12:00:00'",
	"ENUM('a','b') NOT NULL",
}

// indexDef is an index to be added.
type indexDef struct {
	name            string
	unique, primary bool
	parts           []*model.IndexColumn
	desc            []bool
}

// sql is the clause of an ALTER TABLE.
func (x *indexDef) sql() string {
	var cols []string
	for i, p := range x.parts {
		text := p.Name.O
		if p.Length != types.UnspecifiedLength {
			text += fmt.Sprintf("(%d)", p.Length)
		}
		if x.desc[i] {
			text += " DESC"
		}
		cols = append(cols, text)
	}
	columns := "(" + strings.Join(cols, ", ") + ")"
	switch {
	case x.primary:
		return "ADD PRIMARY KEY " + columns + " NONCLUSTERED"
	case x.unique:
		return "ADD UNIQUE INDEX " + x.name + columns
	}
	return "ADD INDEX " + x.name + columns
}

// randomIndex returns an index of some of the table's columns.
func randomIndex(rng *rand.Rand, tbl *model.TableInfo, name string, unique bool) *indexDef {
	x := &indexDef{name: name, unique: unique}
	cols := tbl.Cols()
	n := 1 + rng.Intn(3)
	if unique && oneIn(rng, 2) {
		// Most other columns have so few values that the index is refused at once.
		x.add(rng, model.FindColumnInfo(cols, "n"))
		n--
	}
	for _, i := range rng.Perm(len(cols)) {
		if len(x.parts) >= n && len(x.parts) > 0 {
			break
		}
		if unique && len(x.parts) > 0 && cols[i].Name.L == "n" {
			continue
		}
		x.add(rng, cols[i])
	}
	return x
}

func (x *indexDef) add(rng *rand.Rand, col *model.ColumnInfo) {
	length := types.UnspecifiedLength
	if blob := types.IsTypeBlob(col.GetType()); blob || types.IsTypePrefixable(col.GetType()) && oneIn(rng, 3) {
		length = 1 + rng.Intn(4)
	}
	x.parts = append(x.parts, &model.IndexColumn{Name: col.Name, Offset: col.Offset, Length: length})
	x.desc = append(x.desc, oneIn(rng, 4))
}

// primaryKey is the key to be added to a table without one.
func primaryKey(tbl *model.TableInfo) *indexDef {
	x := &indexDef{name: mysql.PrimaryKeyName, unique: true, primary: true}
	for _, name := range []string{"id", "s"} {
		col := model.FindColumnInfo(tbl.Cols(), name)
		x.parts = append(x.parts, &model.IndexColumn{Name: col.Name, Offset: col.Offset, Length: types.UnspecifiedLength})
		x.desc = append(x.desc, false)
	}
	return x
}

// info is the index as a definition of the table would hold it.
func (x *indexDef) info() *model.IndexInfo {
	return &model.IndexInfo{ID: 1 << 30, Unique: true, Primary: x.primary, Columns: x.parts}
}
