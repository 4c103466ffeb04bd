package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"go.uber.org/zap"

	"fastddl/ddl/session"
	"fastddl/ddl/statistics"
	"fastddl/internal/errs"
)

// Statistics are a help: what goes wrong with them is logged, and the import goes on.

// statisticsPatience is how long statistics may hold up the swap.
const statisticsPatience = 10 * time.Second

// writeStatistics writes the numbers of rows and the statistics of the indexes for the IDs that are about to be the table's.
func (t *task) writeStatistics(ctx context.Context, table *model.TableInfo, loaded *Result) {
	t.attempt(ctx, "statistics of an import are not written", func(ctx context.Context) error {
		rows := map[int64]int64{table.ID: loaded.Rows}
		for id, n := range loaded.Partitions {
			rows[id] = n
		}
		for id, n := range rows {
			// None counts as modified since the indexes' statistics were made, as TiDB's IMPORT INTO has them all (FlushTableStats in
			// pkg/executor/importer): of modified rows it supposes many outside of what the statistics know. It analyzes a table without
			// statistics of its columns in any case.
			if err := t.j.sessions.InTxn(ctx, func(x *session.Txn) error {
				return x.Exec(`REPLACE INTO mysql.stats_meta (version, table_id, count, modify_count, last_stats_histograms_version) VALUES (%?, %?, %?, 0, %?)`,
					x.TS, id, n, x.TS)
			}); err != nil {
				return fmt.Errorf("write the number of rows: %w", err)
			}
		}
		w := statistics.Writer{Sessions: t.j.sessions}
		for _, idx := range table.Indices {
			s, ok := loaded.Statistics[idx.ID]
			if !ok {
				continue
			}
			if err := w.Write(ctx, table, idx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// refreshStatistics has this node read the statistics of the new table.
func (t *task) refreshStatistics(ctx context.Context) {
	t.attempt(ctx, "statistics of an import are read later", func(ctx context.Context) error {
		is := t.j.opts.Domain.InfoSchema()
		table, ok := is.TableByID(ctx, t.record().Import.NewTableID)
		if !ok {
			return nil
		}
		return statistics.Refresh(ctx, t.j.opts.Domain.StatsHandle(), is, table.Meta(), table.Meta().Indices)
	})
}

// removeStatistics removes the statistics of IDs that are not to be a table's.
func (t *task) removeStatistics(ctx context.Context) {
	i := &t.record().Import
	if i.NewTableID == 0 {
		return
	}
	t.attempt(ctx, "statistics of an import that was undone stay until TiDB removes them", func(ctx context.Context) error {
		ids := append(slices.Clone(i.NewPartitionIDs), i.NewTableID)
		for _, name := range append([]string{"stats_meta"}, statistics.IndexTables...) {
			for _, id := range ids {
				if _, err := t.j.sessions.Query(ctx, `DELETE FROM mysql.%n WHERE table_id = %?`, name, id); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (t *task) attempt(ctx context.Context, failed string, fn func(ctx context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, statisticsPatience)
	defer cancel()
	err := func() (err error) {
		defer errs.Contain(&err)
		return fn(limited)
	}()
	if err != nil && ctx.Err() == nil {
		t.j.opts.Logger.Warn(failed, zap.Int64("job", t.rowID), zap.Error(err))
	}
}
