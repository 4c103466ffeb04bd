package ddl

import (
	"context"
	"strings"

	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
)

// Target is the table of a job, by which rights on the job are asked for.
type Target struct {
	// JobID is the job's, which may not be that of its row in TiDB's queue.
	JobID int64
	// DB and Table are the names that the table has now, in lower case.
	DB, Table string
	// OnlyIndex says that the job adds one index and changes nothing else.
	OnlyIndex bool
}

// TargetOf returns the table of a job of ours, by the ID of the job or, before it has ended, of its row in TiDB's queue. ok is false if
// there is no such job, its record cannot be read, or its table is not there any more under the names that it had.
func (d *DDL) TargetOf(ctx context.Context, id int64) (target Target, ok bool, err error) {
	r, err := d.find(ctx, id)
	if err != nil || r == nil || r.Unreadable != nil || r.Later() {
		return Target{}, false, err
	}
	schema := d.opts.Domain.InfoSchema()
	table, ok := schema.TableByID(ctx, r.TableID)
	if !ok {
		return Target{}, false, nil
	}
	db, ok := infoschema.SchemaByTable(schema, table.Meta())
	if !ok || !strings.EqualFold(db.Name.L, r.DB) || !strings.EqualFold(table.Meta().Name.L, r.Table) {
		return Target{}, false, nil
	}
	return Target{JobID: r.ID, DB: db.Name.L, Table: table.Meta().Name.L, OnlyIndex: addsOneIndex(r)}, true, nil
}

func addsOneIndex(r *job.Record) bool {
	return (r.Type == model.ActionAddIndex || r.Type == model.ActionAddPrimaryKey) && len(r.Indexes) == 1
}

// find returns the record of a job, also of one that has ended; nil if there is none.
func (d *DDL) find(ctx context.Context, id int64) (*job.Record, error) {
	r, err := d.records.Find(ctx, id)
	if r != nil || err != nil {
		return r, err
	}
	return d.records.Ended(ctx, id)
}

// RecordCommand keeps what a user has asked of a job in the job's history, if it is one of ours. That it cannot be written is logged.
func (d *DDL) RecordCommand(ctx context.Context, c status.Command) {
	d.reports.Unreported(d.contained("the record of a command", func() error {
		r, err := d.find(ctx, c.JobID)
		if r == nil || err != nil {
			return err
		}
		c.JobID, c.DB, c.Table = r.ID, r.DB, r.Table
		return d.sessions.InTxn(ctx, func(x *session.Txn) error {
			// Not behind the cut of the history.
			if known, err := records.Known(x, c.JobID); err != nil || !known {
				return err
			}
			return status.ReportCommand(x, c)
		})
	}))
}
