package ddl

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill/encode"
	"fastddl/ddl/job"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
)

// buildTask describes the job's indexes at a snapshot.
func (d *DDL) buildTask(ctx context.Context, r *job.Record, ts uint64) (encode.Task, error) {
	var table *model.TableInfo
	err := d.sessions.InTxn(ctx, func(x *session.Txn) (err error) {
		table, err = schema.ReadTable(x, r)
		return err
	})
	if err != nil {
		return encode.Task{}, err
	}
	if table == nil {
		return encode.Task{}, job.Permanent(infoschema.ErrTableNotExists.GenWithStackByArgs(r.DB, r.Table))
	}
	loc, err := r.Location.GetLocation()
	if err != nil {
		return encode.Task{}, zoneError(err)
	}
	indexes := schema.IndexesOf(r, table)
	if len(indexes) != len(r.IndexIDs) {
		return encode.Task{}, job.Permanent(fmt.Errorf("table %s has lost an index that was being built", table.Name.O))
	}
	return encode.Task{
		JobID: r.ID, Table: table, Indexes: indexes, TS: ts,
		SQLMode: r.SQLMode, Location: loc, Functions: r.Functions,
	}, nil
}

// zoneError is what it means for a job that the time zone of its session cannot be had: it
// is undone if there is no such zone, but not because its file cannot be read just now.
func zoneError(err error) error {
	err = fmt.Errorf("time zone of the session: %w", err)
	if errors.As(err, new(syscall.Errno)) {
		return err
	}
	return job.Permanent(err)
}
