package statistics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	tidbstats "github.com/pingcap/tidb/pkg/statistics"
	"github.com/pingcap/tidb/pkg/statistics/handle/storage"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tipb/go-tipb"

	"fastddl/backfill"
	"fastddl/backfill/indexstats"
	"fastddl/ddl/session"
)

// ErrOtherVersion reports that the statistics of a table, or those that ANALYZE would make, are not of version 2.
var ErrOtherVersion = errors.New("statistics of version 1 are in use")

// Settings returns the options that ANALYZE has for a table: those of an earlier ANALYZE, if TiDB keeps them, or the defaults.
func Settings(ctx context.Context, sessions *session.Pool, tableID int64) (indexstats.Settings, error) {
	set := indexstats.DefaultSettings
	if !variable.PersistAnalyzeOptions.Load() {
		return set, nil
	}
	rows, err := sessions.Query(ctx, `SELECT buckets, topn FROM mysql.analyze_options WHERE table_id = %?`, tableID)
	if err != nil || len(rows) == 0 {
		return set, err
	}
	if n := rows[0].GetInt64(0); n > 0 {
		set.Buckets = int(n)
	}
	if n := rows[0].GetInt64(1); n >= 0 {
		set.TopN = int(n)
	}
	return set, nil
}

// Writer writes statistics.
type Writer struct {
	Sessions *session.Pool
	// DumpDeltas has this node's changes of row counts written to mysql.stats_meta.
	DumpDeltas func() error
}

// Write writes the statistics of an index of a table, in a transaction for each physical table. What was written of it before is
// replaced. Other nodes read them when they look next.
func (w *Writer) Write(ctx context.Context, table *model.TableInfo, idx *model.IndexInfo, s backfill.Statistics) error {
	if version, err := w.analyzeVersion(ctx); err != nil || version != tidbstats.Version2 {
		return errors.Join(err, ErrOtherVersion)
	}
	static, err := w.pruneStatically(ctx)
	if err != nil {
		return err
	}
	if s.All != nil && !static { // before the others: statements are planned by these
		if err := w.write(ctx, tidbstats.AnalyzeTableID{TableID: table.ID, PartitionID: tidbstats.NonPartitionTableID}, idx, s.All); err != nil {
			return err
		}
	}
	for _, id := range tableIDs(s) {
		of := tidbstats.AnalyzeTableID{TableID: table.ID, PartitionID: tidbstats.NonPartitionTableID}
		if id != table.ID {
			of.PartitionID = id
		}
		if err := w.write(ctx, of, idx, s.Parts[id]); err != nil {
			return err
		}
	}
	return nil
}

func tableIDs(s backfill.Statistics) []int64 {
	ids := make([]int64, 0, len(s.Parts))
	for id := range s.Parts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// write writes the statistics of an index of one physical table.
func (w *Writer) write(ctx context.Context, of tidbstats.AnalyzeTableID, idx *model.IndexInfo, s *indexstats.Statistics) error {
	id := of.GetStatisticsID()
	err := w.Sessions.InTxn(ctx, func(t *session.Txn) error {
		analyzed, err := wasAnalyzed(t, id, idx.ID)
		if err != nil {
			return err
		}
		// Of these results TiDB writes nothing but the statistics themselves and their version (pkg/statistics/handle/storage/save.go).
		results := &tidbstats.AnalyzeResults{
			TableID: of, StatsVer: tidbstats.Version2, ForMVIndexOrGlobalIndex: true, Ars: []*tidbstats.AnalyzeResult{result(idx.ID, s)},
		}
		if _, err := storage.SaveAnalyzeResultToStorage(t.Session.Context, results, false); err != nil {
			return err
		}
		if !analyzed {
			err = t.Exec(`UPDATE mysql.stats_histograms SET version = 0 WHERE table_id = %? AND is_index = 1 AND hist_id = %?`, id, idx.ID)
		}
		return err
	})
	if err == nil && !idx.MVIndex { // otherwise entries are not rows
		err = w.countRows(ctx, id, s.Rows)
	}
	if err != nil {
		return fmt.Errorf("write statistics of index %s: %w", idx.Name.O, err)
	}
	return nil
}

// wasAnalyzed says that ANALYZE has made statistics of a physical table before. It fails with ErrOtherVersion if they are of version 1.
func wasAnalyzed(t *session.Txn, tableID, indexID int64) (bool, error) {
	rows, err := t.Query(`SELECT COUNT(IF(stats_ver = 1, 1, NULL)), COUNT(IF(version > 0, 1, NULL)) FROM mysql.stats_histograms
		WHERE table_id = %? AND stats_ver > 0 AND NOT (is_index = 1 AND hist_id = %?)`, tableID, indexID)
	if err != nil {
		return false, err
	}
	if rows[0].GetInt64(0) > 0 {
		return false, ErrOtherVersion
	}
	if rows[0].GetInt64(1) > 0 {
		return true, nil
	}
	rows, err = t.Query(`SELECT 1 FROM mysql.stats_meta WHERE table_id = %? AND snapshot > 0`, tableID)
	return len(rows) > 0, err
}

// countRows sets the number of rows of a physical table of which TiDB knows none, as an import leaves it: TiDB takes a table without rows for one
// without statistics.
func (w *Writer) countRows(ctx context.Context, tableID, rows int64) error {
	const none = `SELECT 1 FROM mysql.stats_meta WHERE table_id = %? AND count = 0`
	found, err := w.Sessions.Query(ctx, none, tableID)
	if err != nil || len(found) == 0 || rows == 0 {
		return err
	}
	if w.DumpDeltas != nil {
		if err := w.DumpDeltas(); err != nil {
			return err
		}
	}
	return w.Sessions.InTxn(ctx, func(t *session.Txn) error {
		found, err := t.Query(none, tableID)
		if err != nil || len(found) == 0 {
			return err
		}
		return t.Exec(`UPDATE mysql.stats_meta SET count = %?, version = %? WHERE table_id = %?`, rows, t.TS, tableID)
	})
}

// result returns statistics as TiDB has them.
func result(indexID int64, s *indexstats.Statistics) *tidbstats.AnalyzeResult {
	hist := tidbstats.NewHistogram(indexID, s.Different, s.Nulls, 0, types.NewFieldType(mysql.TypeBlob), len(s.Buckets), 0)
	var rows int64
	for _, b := range s.Buckets {
		lower, upper := types.NewBytesDatum(b.Lower), types.NewBytesDatum(b.Upper)
		rows += b.Rows
		hist.AppendBucket(&lower, &upper, rows, b.Repeat)
	}
	top := new(tidbstats.TopN)
	for _, v := range s.Top {
		top.TopN = append(top.TopN, tidbstats.TopNMeta{Encoded: v.Key, Count: uint64(v.Rows)})
	}
	var sketch *tidbstats.FMSketch
	if s.Sample != nil {
		proto := &tipb.FMSketch{Mask: s.Sample.Mask}
		for hash := range s.Sample.Hashes {
			proto.Hashset = append(proto.Hashset, hash)
		}
		sketch = tidbstats.FMSketchFromProto(proto)
	}
	return &tidbstats.AnalyzeResult{
		Hist: []*tidbstats.Histogram{hist}, TopNs: []*tidbstats.TopN{top}, Fms: []*tidbstats.FMSketch{sketch}, IsIndex: 1,
	}
}

// analyzeVersion returns the version of statistics that TiDB makes by itself.
func (w *Writer) analyzeVersion(ctx context.Context) (int, error) {
	text, err := w.global(ctx, variable.TiDBAnalyzeVersion)
	if err != nil {
		return 0, err
	}
	version, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", variable.TiDBAnalyzeVersion, err)
	}
	return version, nil
}

// pruneStatically says that statements do not read statistics of all partitions together.
func (w *Writer) pruneStatically(ctx context.Context) (bool, error) {
	text, err := w.global(ctx, variable.TiDBPartitionPruneMode)
	return text == string(variable.Static), err
}

func (w *Writer) global(ctx context.Context, name string) (string, error) {
	rows, err := w.Sessions.Query(ctx, `SELECT variable_value FROM mysql.global_variables WHERE variable_name = %?`, name)
	if err != nil || len(rows) == 0 {
		return "", errors.Join(err, fmt.Errorf("global variable %s is not known", name))
	}
	return rows[0].GetString(0), nil
}
