package crash

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// expected is what the store may hold of a table's indexes, as the server says.
type expected struct {
	tableID int64
	name    string
	indexes map[int64]bool
	// condemned are ranges that TiDB's GC worker will delete.
	condemned []kv.KeyRange
}

// expectations asks the server, when all jobs are over, what may be in the store.
func (r *run) expectations(ctx context.Context, db *sql.DB) ([]expected, error) {
	var condemned []kv.KeyRange
	err := each(ctx, db, "SELECT start_key, end_key FROM mysql.gc_delete_range UNION ALL SELECT start_key, end_key FROM mysql.gc_delete_range_done",
		func(row []string) error {
			start, err := hex.DecodeString(row[0])
			if err != nil {
				return err
			}
			end, err := hex.DecodeString(row[1])
			condemned = append(condemned, kv.KeyRange{Start: start, End: end})
			return err
		})
	if err != nil {
		return nil, err
	}
	var out []expected
	for _, t := range r.tables {
		e := expected{name: t.name, indexes: make(map[int64]bool), condemned: condemned}
		query := "SELECT t.tidb_table_id, i.index_id FROM information_schema.tables t LEFT JOIN information_schema.tidb_indexes i " +
			"ON i.table_schema = t.table_schema AND i.table_name = t.table_name WHERE t.table_schema = 'test' AND t.table_name = '" + t.name + "'"
		err := each(ctx, db, query, func(row []string) error {
			if _, err := fmt.Sscan(row[0], &e.tableID); err != nil {
				return err
			}
			var id int64
			if row[1] != null {
				if _, err := fmt.Sscan(row[1], &id); err != nil {
					return err
				}
			}
			e.indexes[id] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// each calls fn for the rows of a query.
func each(ctx context.Context, q querier, query string, fn func(row []string) error) error {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	cells := make([]sql.NullString, len(columns))
	dest := make([]any, len(columns))
	for i := range cells {
		dest[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		row := make([]string, len(cells))
		for i, c := range cells {
			if row[i] = null; c.Valid {
				row[i] = c.String
			}
		}
		if err := fn(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// requireNothingLeft opens the store of a server that has ended. It must hold no
// key of an index that does not exist, but for those that are about to be
// deleted, and no job may hold garbage collection up.
func (r *run) requireNothingLeft(t *testing.T, tables []expected) {
	t.Helper()
	ctx := t.Context()
	store, err := pebblekv.Open(r.dir, pebblekv.Options{CacheBytes: 16 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	holds, err := store.GCHolds(ctx)
	require.NoError(t, err)
	for name := range holds {
		require.False(t, strings.Contains(name, "fastddl"), "hold %s on garbage collection is left", name)
	}
	ts, err := store.CurrentTS(ctx)
	require.NoError(t, err)
	snap, err := store.Snapshot(ctx, ts)
	require.NoError(t, err)
	defer func() { require.NoError(t, snap.Close()) }()
	for _, e := range tables {
		require.NoError(t, e.checkIndexKeys(snap))
	}
}

// checkIndexKeys verifies that every key among the table's indexes belongs to one
// that there is.
func (e *expected) checkIndexKeys(snap kv.Snapshot) error {
	it, err := snap.Iter(kv.PrefixRange(tablecodec.GenTableIndexPrefix(e.tableID)))
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for it.Valid() {
		_, indexID, _, err := tablecodec.DecodeKeyHead(it.Key())
		if err != nil {
			return err
		}
		// Our builds have no temporary indexes; TiDB's may leave keys of theirs, where what a
		// transaction of before writes comes after garbage collection has deleted the range.
		temporary := indexID&tablecodec.TempIndexPrefix == tablecodec.TempIndexPrefix
		if !e.indexes[indexID] && !temporary && !e.isCondemned(it.Key()) {
			return fmt.Errorf("table %s: a key of index %d is left, which does not exist: %x", e.name, indexID, it.Key())
		}
		if err := it.Next(); err != nil {
			return err
		}
	}
	return nil
}

func (e *expected) isCondemned(key []byte) bool {
	for _, r := range e.condemned {
		if bytes.Compare(key, r.Start) >= 0 && bytes.Compare(key, r.End) < 0 {
			return true
		}
	}
	return false
}
