package statistics

import (
	"context"
	"fmt"

	"fastddl/ddl/session"
)

// IndexTables are TiDB's tables with statistics of indexes (deleteHistStatsFromKV in pkg/statistics/handle/storage/gc.go).
var IndexTables = []string{"stats_histograms", "stats_top_n", "stats_buckets", "stats_fm_sketch"}

// Remove removes the statistics of indexes that are not to be, from physical tables.
func Remove(ctx context.Context, sessions *session.Pool, tableIDs, indexIDs []int64) error {
	for _, id := range tableIDs {
		for _, index := range indexIDs {
			if err := remove(ctx, sessions, id, index); err != nil {
				return fmt.Errorf("remove statistics of index %d of table %d: %w", index, id, err)
			}
		}
	}
	return nil
}

func remove(ctx context.Context, sessions *session.Pool, tableID, indexID int64) error {
	rows, err := sessions.Query(ctx, `SELECT 1 FROM mysql.stats_histograms WHERE table_id = %? AND is_index = 1 AND hist_id = %?`, tableID, indexID)
	if err != nil || len(rows) == 0 {
		return err
	}
	return sessions.InTxn(ctx, func(t *session.Txn) error {
		if err := t.Exec(`UPDATE mysql.stats_meta SET version = %?, last_stats_histograms_version = %? WHERE table_id = %?`, t.TS, t.TS, tableID); err != nil {
			return err
		}
		for _, table := range IndexTables {
			if err := t.Exec(`DELETE FROM mysql.%n WHERE table_id = %? AND is_index = 1 AND hist_id = %?`, table, tableID, indexID); err != nil {
				return err
			}
		}
		return nil
	})
}
