package sql

import (
	"bytes"

	gms "github.com/dolthub/go-mysql-server/sql"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"

	"fastddl/sql/sqlerr"
)

const duplicateEntriesName = "ddl_duplicate_entries"

var duplicateEntriesSchema = ownSchema(duplicateEntriesName,
	&gms.Column{Name: "JOB_ID", Type: gmstypes.Int64},
	&gms.Column{Name: "TABLE_SCHEMA", Type: gmstypes.LongText},
	&gms.Column{Name: "TABLE_NAME", Type: gmstypes.LongText},
	&gms.Column{Name: "INDEX_NAME", Type: gmstypes.LongText},
	&gms.Column{Name: "ENTRY", Type: gmstypes.LongText},
	&gms.Column{Name: "ROW_COUNT", Type: gmstypes.Int64},
	&gms.Column{Name: "ROW_HANDLES", Type: gmstypes.LongText},
)

// duplicateEntries lists the rows with equal values because of which jobs have
// failed. Unlike the jobs themselves it shows what is in tables, and only of
// those that the user may read.
func (e *Engine) duplicateEntries(ctx *gms.Context) (gms.RowIter, error) {
	jobs, err := e.ddl.Jobs(ctx)
	if err != nil {
		return nil, sqlerr.Translate(err)
	}
	var rows []gms.Row
	for _, j := range jobs {
		if len(j.Duplicates) == 0 || !e.maySelect(ctx, j.Schema, j.Table) {
			continue
		}
		for _, d := range j.Duplicates {
			rows = append(rows, gms.Row{
				j.ID, j.Schema, j.Table, d.Index, string(d.Entry), d.Rows, string(bytes.Join(d.Handles, []byte(","))),
			})
		}
	}
	return gms.RowsToRowIter(rows...), nil
}

// maySelect says that the user may read a table.
func (e *Engine) maySelect(ctx *gms.Context, db, table string) bool {
	subject := gms.PrivilegeCheckSubject{Database: db, Table: table}
	return e.gms.Analyzer.Catalog.MySQLDb.UserHasPrivileges(ctx, gms.NewPrivilegedOperation(subject, gms.PrivilegeType_Select))
}
