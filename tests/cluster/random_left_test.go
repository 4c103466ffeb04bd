package cluster

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/kv"
)

// notOthers is of rows of mysql.tidb_ddl_job and others that have a job_id: a live cluster has jobs of other databases.
const notOthers = "job_id NOT IN (SELECT job_id FROM mysql.tidb_ddl_job " +
	"WHERE JSON_UNQUOTE(JSON_EXTRACT(CONVERT(job_meta USING utf8mb4), '$.schema_name')) <> DATABASE())"

// nothingIsLeft verifies that jobs that have ended have left nothing behind: in TiDB's
// tables and ours, in the nodes' folders, with PD, and in the store.
func (r *random) nothingIsLeft(ctx context.Context) error {
	db := r.servers[0].db
	err := until(ctx, func() (string, error) {
		tables := []string{"fastddl_ddl_record WHERE TRUE", "fastddl_ddl_blockers WHERE TRUE", "fastddl_build_parts WHERE TRUE",
			"tidb_ddl_job WHERE TRUE",
			// TiDB leaves rows of its own jobs there when their owner is killed. Those of rows that
			// it has taken from us stay for some minutes.
			"tidb_mdl_info JOIN mysql.fastddl_ddl_record_history h USING (job_id) WHERE INSTR(CONVERT(h.record USING utf8mb4), 'taken_rows') = 0"}
		if r.counts.kills.Load()+r.counts.restarts.Load() == 0 { // requests of the dead stay for ten minutes
			tables = append(tables, "fastddl_ddl_requests WHERE TRUE")
		}
		for _, table := range tables {
			rows, err := texts(ctx, db, "SELECT * FROM mysql."+table+" AND "+notOthers)
			if err != nil {
				return "", err
			}
			if len(rows) > 0 {
				return fmt.Sprintf("left in mysql.%s: %q", table, rows), nil
			}
		}
		// A node that has lost its job, or its part, removes the files when it notices.
		if left, err := r.filesLeft(); err != nil || left != "" {
			return left, err
		}
		return r.holdsLeft(ctx)
	})
	if err != nil {
		return err
	}
	for _, t := range r.tables {
		if err := r.checkKeys(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// filesLeft names a file in a node's temp folder. The folder of the server stays, and TiDB's
// in it.
func (r *random) filesLeft() (left string, err error) {
	for _, s := range r.servers[:nodesOfOurs] {
		err := filepath.WalkDir(s.ours.temp, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case d != nil && d.IsDir() && d.Name() == "tls": // the certificate of auto-tls
				return fs.SkipDir
			case err != nil || d.IsDir() || strings.HasSuffix(strings.ToUpper(d.Name()), "LOCK"):
				return err
			}
			left = "left in the temp folder: " + path
			return filepath.SkipAll
		})
		if err != nil || left != "" {
			return left, err
		}
	}
	return "", nil
}

// holdsLeft names a hold on garbage collection that should be gone. The last owner's of an
// index that was published is left to expire.
func (r *random) holdsLeft(ctx context.Context) (left string, err error) {
	holds, err := r.builds.GCHolds(ctx)
	if err != nil {
		return "", err
	}
	published, err := texts(ctx, r.servers[0].db, "SELECT job_id FROM mysql.fastddl_ddl_jobs WHERE state = 'synced'")
	if err != nil {
		return "", err
	}
	may := make(map[string]bool)
	for _, row := range published {
		may[row[0]] = true
	}
	for name := range holds {
		_, id, ours := strings.Cut(name, "fastddl-job-")
		if id, _, _ = strings.Cut(id, "-"); !ours {
			continue
		}
		if !may[id] {
			return "left with PD: hold " + name, nil
		}
		may[id] = false
	}
	return "", nil
}

// checkKeys verifies that every key among a table's indexes in the store is of one that
// there is, or is about to be deleted by TiDB's GC worker.
func (r *random) checkKeys(ctx context.Context, t *randomTable) error {
	db := r.servers[0].db
	var condemned []kv.KeyRange
	rows, err := texts(ctx, db, "SELECT start_key, end_key FROM mysql.gc_delete_range UNION ALL SELECT start_key, end_key FROM mysql.gc_delete_range_done")
	if err != nil {
		return err
	}
	for _, row := range rows {
		start, err1 := hex.DecodeString(row[0])
		end, err2 := hex.DecodeString(row[1])
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		condemned = append(condemned, kv.KeyRange{Start: start, End: end})
	}
	rows, err = texts(ctx, db, "SELECT index_id FROM information_schema.tidb_indexes WHERE table_schema = DATABASE() AND table_name = ?", t.name)
	if err != nil {
		return err
	}
	indexes := make(map[int64]bool)
	for _, row := range rows {
		var id int64
		if _, err := fmt.Sscan(row[0], &id); err != nil {
			return err
		}
		indexes[id] = true
	}
	rows, err = texts(ctx, db, `SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ? UNION
		SELECT tidb_partition_id FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = ? AND tidb_partition_id IS NOT NULL`, t.name, t.name)
	if err != nil {
		return err
	}
	for _, row := range rows {
		var id int64
		if _, err := fmt.Sscan(row[0], &id); err != nil {
			return err
		}
		if err := r.checkKeysOf(ctx, t, id, indexes, condemned); err != nil {
			return err
		}
	}
	return nil
}

func (r *random) checkKeysOf(ctx context.Context, t *randomTable, physical int64, indexes map[int64]bool, condemned []kv.KeyRange) error {
	store := r.builds
	ts, err := store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	snap, err := store.Snapshot(ctx, ts)
	if err != nil {
		return err
	}
	defer func() { _ = snap.Close() }()
	it, err := snap.Iter(kv.PrefixRange(tablecodec.GenTableIndexPrefix(physical)))
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for it.Valid() {
		_, index, _, err := tablecodec.DecodeKeyHead(it.Key())
		if err != nil {
			return err
		}
		if !indexes[index] && !slices.ContainsFunc(condemned, func(c kv.KeyRange) bool {
			return bytes.Compare(it.Key(), c.Start) >= 0 && bytes.Compare(it.Key(), c.End) < 0
		}) {
			return wrongf("table %s: a key of index %d of %d is left, which does not exist: %x", t.name, index, physical, it.Key())
		}
		if err := it.Next(); err != nil {
			return err
		}
	}
	return nil
}
