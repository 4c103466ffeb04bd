package status

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/errno"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/terror"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/ddl/verdict"
)

// errorsColumns are the view's, and what they are over the table.
var errorsColumns = [][2]string{
	{"job_id", "job_id"}, {"number", "number"}, {"db_name", "db_name"}, {"table_name", "table_name"}, {"index_name", "index_name"},
	{"error_code", "error_code"}, {"message", ifMaySelect("message", "shown_message")},
	{"column_name", "column_name"}, {"partition_name", "partition_name"},
	{"row_handle", ifMaySelect("row_handle", hidden("row_handle"))}, {"value", ifMaySelect("value", hidden("value"))},
	{"row_count", "row_count"}, {"time", "time"},
}

func ifMaySelect(shown, other string) string {
	return fmt.Sprintf("IF(%s(db_name, table_name), %s, %s)", maySelectFunction, shown, other)
}

// hidden is what others see of a column.
func hidden(column string) string { return fmt.Sprintf("IF(%s IS NULL, NULL, '?')", column) }

// makeErrorsView makes the view, if it is not there as it is to be.
func (r *Tables) makeErrorsView(ctx context.Context) error {
	var names, exprs []string
	for _, c := range errorsColumns {
		names, exprs = append(names, c[0]), append(exprs, c[1])
	}
	if found, err := r.Domain.InfoSchema().TableByName(ctx, mysqlSchema, pmodel.NewCIStr(verdict.ErrorsView)); err == nil && found.Meta().IsView() {
		var has []string
		for _, c := range found.Meta().Columns {
			has = append(has, c.Name.L)
		}
		if slices.Equal(has, names) {
			return nil
		}
	}
	// Like TiDB's own views, by the rights of who reads it: the account that a definer would be may be dropped.
	_, err := r.Sessions.Query(ctx, fmt.Sprintf("CREATE OR REPLACE SQL SECURITY INVOKER VIEW mysql.%s (%s) AS SELECT %s FROM mysql.%s",
		verdict.ErrorsView, strings.Join(names, ", "), strings.Join(exprs, ", "), errorRowsTable.name))
	if err != nil {
		return fmt.Errorf("create mysql.%s: %w", verdict.ErrorsView, err)
	}
	return nil
}

// errorRowsAtOnce is how many rows a statement writes.
const errorRowsAtOnce = 50

// reportErrorRows writes the rows that a job was undone for.
func reportErrorRows(t *session.Txn, r *job.Record) error {
	rows := errorRows(r)
	number := 0
	for chunk := range slices.Chunk(rows, errorRowsAtOnce) {
		var values []any
		for _, e := range chunk {
			number++
			values = append(values, r.ID, number, r.DB, r.Table, e.index, e.code, session.ValidText(e.message), session.ValidText(e.shown),
				session.OrNull(session.ValidText(e.column)), session.OrNull(e.partition), session.OrNull(session.ValidText(e.handle)), e.value, session.OrNull(e.rows),
				session.TimeOrNull(timeOf(r.EndTS), t.Session.GetSessionVars().Location()))
		}
		if err := t.Exec(errorRowsTable.replaceRows(len(chunk)), values...); err != nil {
			return err
		}
	}
	return nil
}

// errorRow is a row of the table.
type errorRow struct {
	index                     string
	code                      uint16
	message, shown            string
	column, partition, handle string
	value                     any // NULL, or text
	rows                      int64
}

// errorRows are the rows that a record names.
func errorRows(r *job.Record) (rows []errorRow) {
	for _, dup := range r.Duplicates {
		of := func(entry string) string {
			return fmt.Sprintf("Duplicate entry '%s' for key '%s.%s'", entry, r.Table, dup.Index)
		}
		for i, handle := range dup.Handles {
			e := errorRow{
				index: dup.Index, code: errno.ErrDupEntry, message: of(dup.Entry), shown: of("?"),
				column: dup.Columns, handle: handle, value: session.ValidText(dup.Entry), rows: dup.Rows,
			}
			if i < len(dup.Partitions) {
				e.partition = dup.Partitions[i]
				e.handle = strings.TrimSuffix(handle, verdict.InPartition(e.partition))
			}
			rows = append(rows, e)
		}
	}
	for _, bad := range r.BadRows {
		e := errorRow{index: bad.Index, column: bad.Column, partition: bad.Partition, handle: bad.Handle}
		if bad.Error != nil {
			e.code, e.message = terror.ToSQLError(bad.Error).Code, bad.Error.GetMsg()
		}
		if bad.Shown != nil {
			e.shown = bad.Shown.GetMsg()
		}
		if bad.Value != nil {
			e.value = session.ValidText(*bad.Value)
		}
		rows = append(rows, e)
	}
	return rows
}
