package model

import (
	"cmp"
	"slices"
	"sync"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/catalog"
	"fastddl/table"
)

// write is what a transaction did to one row.
type write struct {
	handle string
	h      tkv.Handle
	// row is nil for a deletion; its columns are those of tbl.
	row []types.Datum
	tbl *catalog.Table
}

// as returns the row as another version of the table shows it: a column that
// the writer did not know, or did not show, has the value of rows from before it.
func (w *write) as(tbl *catalog.Table) ([]types.Datum, error) {
	if tbl == w.tbl {
		return w.row, nil
	}
	known := make(map[int64]types.Datum, len(w.row))
	for i, col := range w.tbl.Info.Cols() {
		known[col.ID] = w.row[i]
	}
	cols := tbl.Info.Cols()
	out := make([]types.Datum, len(cols))
	for i, col := range cols {
		d, ok := known[col.ID]
		if !ok {
			var err error
			if d, err = table.OriginDefault(col); err != nil {
				return nil, err
			}
		}
		out[i] = d
	}
	return out, nil
}

// commit is an acknowledged transaction.
type commit struct {
	ts     uint64
	writes []write
}

// history is the model of one table: all acknowledged commits.
type history struct {
	mu      sync.Mutex
	commits []commit

	// committing is held shared from before a transaction takes its timestamp
	// until it is in commits.
	committing sync.RWMutex
}

func (h *history) add(c commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commits = append(h.commits, c)
}

// settle returns when every commit below the timestamps that exist now has been
// added.
func (h *history) settle() {
	h.committing.Lock()
	defer h.committing.Unlock()
}

// inOrder returns the commits in the order of their timestamps.
func (h *history) inOrder() []commit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(slices.Values(h.commits), func(a, b commit) int { return cmp.Compare(a.ts, b.ts) })
}

// rowsAt returns the rows at ts as tbl shows them: their texts by handle.
func (h *history) rowsAt(ts uint64, tbl *catalog.Table) (map[string]string, error) {
	newest := make(map[string]write)
	for _, c := range h.inOrder() {
		if c.ts > ts {
			break
		}
		for _, w := range c.writes {
			newest[w.handle] = w
		}
	}
	rows := make(map[string]string, len(newest))
	for handle, w := range newest {
		if w.row == nil {
			continue
		}
		row, err := w.as(tbl)
		if err != nil {
			return nil, err
		}
		if rows[handle], err = rowText(row); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// keyCounter counts the keys that more than one row has.
type keyCounter struct {
	keys       map[string]string // by handle
	holders    map[string]int    // by key
	duplicates int
}

// set gives a row another key; "" is one that need not be unique.
func (k *keyCounter) set(handle, key string) {
	if old := k.keys[handle]; old != "" {
		if k.holders[old]--; k.holders[old] == 1 {
			k.duplicates--
		}
	}
	if k.keys[handle] = key; key != "" {
		if k.holders[key]++; k.holders[key] == 2 {
			k.duplicates++
		}
	}
}

// everDuplicate says whether two rows had the same key at some moment between
// from and to. keyOf returns a row's key, or "" for one that need not be unique.
func (h *history) everDuplicate(from, to uint64, keyOf func(w write) (string, error)) (bool, error) {
	counter := keyCounter{keys: map[string]string{}, holders: map[string]int{}}
	for _, c := range h.inOrder() {
		if c.ts > from && counter.duplicates > 0 {
			return true, nil
		}
		if c.ts > to {
			break
		}
		for _, w := range c.writes {
			key := ""
			if w.row != nil {
				var err error
				if key, err = keyOf(w); err != nil {
					return false, err
				}
			}
			counter.set(w.handle, key)
		}
	}
	return counter.duplicates > 0, nil
}

// handleText identifies a row by its handle.
func handleText(h tkv.Handle) string { return string(h.Encoded()) }
