package jobs

import (
	"context"
	"errors"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/load"
	"fastddl/load/rows"
)

// createErrors makes the table of the rows that kept imports from succeeding: those of the last import into each table.
const createErrors = `CREATE TABLE IF NOT EXISTS mysql.fastddl_import_errors (
	job_id BIGINT NOT NULL,
	number INT NOT NULL,
	table_schema VARCHAR(64) NOT NULL,
	table_name VARCHAR(64) NOT NULL,
	file TEXT,
	line BIGINT,
	file_offset BIGINT,
	column_name VARCHAR(64),
	code INT,
	message TEXT,
	PRIMARY KEY (job_id, number))`

// mostErrors bounds record_errors = -1.
const mostErrors = 10_000

// maxErrors is how many bad rows a plan wants listed.
func maxErrors(plan *importer.Plan) int {
	if plan.MaxRecordedErrors < 0 {
		return mostErrors
	}
	return int(min(plan.MaxRecordedErrors, mostErrors))
}

// recordErrors lists the rows that an import has failed for. The import's own error does not depend on it.
func (t *task) recordErrors(ctx context.Context, plan *importer.Plan, why error) {
	all := badRows(why)
	if limit := maxErrors(plan); len(all) > limit {
		all = all[:limit]
	}
	if len(all) == 0 || ctx.Err() != nil {
		return
	}
	r := t.record()
	id := r.ImportID
	if id == 0 { // of a query: such an ID may be that of an import from files, of which the rows are forgotten
		id = t.rowID
	}
	err := t.j.sessions.InTxn(ctx, func(x *session.Txn) error {
		if err := x.Exec(`DELETE FROM mysql.fastddl_import_errors WHERE table_schema = %? AND table_name = %? OR job_id = %?`, r.Import.DB, r.Import.Table, id); err != nil {
			return err
		}
		for n, e := range all {
			code, message := uint16(0), e.err.Error()
			if known := job.FindTerror(e.err); known != nil {
				sqlErr := terror.ToSQLError(known)
				code, message = sqlErr.Code, sqlErr.Message
			}
			if err := x.Exec(`INSERT INTO mysql.fastddl_import_errors VALUES (%?, %?, %?, %?, %?, %?, %?, %?, %?, %?)`, id, n+1, r.Import.DB, r.Import.Table,
				session.ValidText(e.place.File), e.place.Line, e.place.Offset, session.OrNull(e.column), int(code), session.ValidText(message)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.j.opts.Logger.Warn("the bad rows of an import are not listed", zap.Int64("job", t.rowID), zap.Error(err))
	}
}

// badRow is a row that keeps an import from succeeding.
type badRow struct {
	place  rows.Place
	column string
	err    error
}

// badRows are the rows that an error of a load names.
func badRows(err error) (all []badRow) {
	var bad *load.RowsError
	if errors.As(err, &bad) {
		for _, e := range bad.Rows {
			all = append(all, badRow{e.Place, e.Column, e.Err})
		}
	}
	var duplicates *load.DuplicateError
	if errors.As(err, &duplicates) {
		for _, d := range duplicates.Duplicates {
			if len(d.Places) == 0 {
				all = append(all, badRow{err: d.Err})
			}
			for _, place := range d.Places {
				all = append(all, badRow{place: place, err: d.Err})
			}
		}
	}
	return all
}
