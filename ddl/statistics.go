package ddl

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/backfill/indexstats"
	"fastddl/ddl/job"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/ddl/statistics"
	"fastddl/event"
	"fastddl/internal/errs"
)

// Statistics are a help: what goes wrong with them is logged, and the job goes on.

// statisticsPatience is how long statistics may hold up a publication. Those of thousands of partitions take longer, each in a transaction.
const statisticsPatience = 10 * time.Second

var errSlow = fmt.Errorf("statistics are not written within %s", statisticsPatience)

// statisticsSettings returns how statistics of a table are shaped.
func (t *task) statisticsSettings(ctx context.Context, r *job.Record) indexstats.Settings {
	set, err := statistics.Settings(ctx, t.d.sessions, r.TableID)
	if err != nil {
		t.noStatistics(err)
		return indexstats.DefaultSettings
	}
	return set
}

// writeStatistics writes the statistics of the job's indexes, which are about to be public. It returns whether all are written.
func (t *task) writeStatistics(ctx context.Context, r *job.Record) bool {
	err := t.tryStatistics(ctx, r)
	if err != nil && ctx.Err() == nil {
		t.noStatistics(err)
	}
	return err == nil
}

func (t *task) tryStatistics(ctx context.Context, r *job.Record) (err error) {
	defer errs.Contain(&err)
	ctx, cancel := context.WithTimeoutCause(ctx, t.d.opts.StatisticsPatience, errSlow)
	defer cancel()
	task, err := t.d.buildTask(ctx, r, r.SnapshotTS)
	if err != nil {
		return err
	}
	checkpoint, err := t.d.records.Checkpoint(ctx, t.id)
	if err != nil {
		return err
	}
	all, err := backfill.StatisticsOf(checkpoint, &task, t.statisticsSettings(ctx, r))
	if err != nil {
		return err
	}
	w := statistics.Writer{Sessions: t.d.sessions, DumpDeltas: t.d.dumpDeltas}
	for i, idx := range task.Indexes {
		if err := w.Write(ctx, task.Table, idx, all[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *task) noStatistics(err error) {
	t.d.opts.Bus.Emit(event.NoStatistics{Job: event.Job{ID: t.id}, Err: err})
}

// dumpDeltas writes what this node knows of changes of tables to TiDB's statistics.
func (d *DDL) dumpDeltas() error {
	if handle := d.opts.Domain.StatsHandle(); handle != nil {
		return handle.DumpStatsDeltaToKV(true)
	}
	return nil
}

// removeStatistics removes what a job that was undone has written of its indexes, as far as there is time.
func (t *task) removeStatistics(ctx context.Context, r *job.Record) {
	limited, cancel := context.WithTimeoutCause(ctx, t.d.opts.StatisticsPatience, errSlow)
	defer cancel()
	var table *model.TableInfo
	err := t.d.sessions.InTxn(limited, func(x *session.Txn) (err error) {
		table, err = schema.ReadTable(x, r)
		return err
	})
	if err == nil && table != nil { // TiDB removes those of a table that is gone
		var gone []int64
		for _, id := range r.IndexIDs {
			if model.FindIndexInfoByID(table.Indices, id) == nil { // no other one has got its ID
				gone = append(gone, id)
			}
		}
		tables := encode.PhysicalIDs(table)
		if table.GetPartitionInfo() != nil {
			tables = append(tables, table.ID)
		}
		err = statistics.Remove(limited, t.d.sessions, tables, gone)
	}
	if err != nil && ctx.Err() == nil {
		t.d.opts.Logger.Warn("statistics of an index that was not built stay until TiDB removes them", zap.Int64("job", t.id), zap.Error(err))
	}
}

// refreshStatistics has this node know the statistics of the indexes that a statement has added before the statement ends. Other nodes look
// every few seconds.
func (d *DDL) refreshStatistics(ctx context.Context, req Request) {
	err := func() (err error) {
		defer errs.Contain(&err)
		is := d.opts.Domain.InfoSchema()
		table, ok := is.TableByID(ctx, req.Table.ID)
		if !ok {
			return nil
		}
		var indexes []*model.IndexInfo
		for _, arg := range req.Indexes {
			if idx := table.Meta().FindIndexByName(arg.IndexName.L); idx != nil {
				indexes = append(indexes, idx)
			}
		}
		return statistics.Refresh(ctx, d.opts.Domain.StatsHandle(), is, table.Meta(), indexes)
	}()
	if err != nil {
		d.opts.Logger.Info("statistics of a new index are read later", zap.Int64("table", req.Table.ID), zap.Error(err))
	}
}
