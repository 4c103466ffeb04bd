package model

import (
	"cmp"
	"slices"
	"sync"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/types"
)

// write is what a transaction did to one row.
type write struct {
	handle string
	// text and row are the row's new values, empty for a deletion.
	text string
	row  []types.Datum
	h    tkv.Handle
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
}

func (h *history) add(c commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commits = append(h.commits, c)
}

// inOrder returns the commits in the order of their timestamps.
func (h *history) inOrder() []commit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(slices.Values(h.commits), func(a, b commit) int { return cmp.Compare(a.ts, b.ts) })
}

// rowsAt returns the rows at ts: their texts by handle.
func (h *history) rowsAt(ts uint64) map[string]string {
	rows := make(map[string]string)
	for _, c := range h.inOrder() {
		if c.ts > ts {
			break
		}
		for _, w := range c.writes {
			if w.text == "" {
				delete(rows, w.handle)
			} else {
				rows[w.handle] = w.text
			}
		}
	}
	return rows
}

// everDuplicate says whether two rows had the same key at some moment between
// from and to. keyOf returns a row's key, or "" for one that need not be unique.
func (h *history) everDuplicate(from, to uint64, keyOf func(w write) (string, error)) (bool, error) {
	keys := make(map[string]string) // by handle
	holders := make(map[string]int) // by key
	duplicates := 0
	set := func(handle, key string) {
		if old := keys[handle]; old != "" {
			if holders[old]--; holders[old] == 1 {
				duplicates--
			}
		}
		if keys[handle] = key; key != "" {
			if holders[key]++; holders[key] == 2 {
				duplicates++
			}
		}
	}
	for _, c := range h.inOrder() {
		if c.ts > from && duplicates > 0 {
			return true, nil
		}
		if c.ts > to {
			break
		}
		for _, w := range c.writes {
			key := ""
			if w.text != "" {
				var err error
				if key, err = keyOf(w); err != nil {
					return false, err
				}
			}
			set(w.handle, key)
		}
	}
	return duplicates > 0, nil
}

// handleText identifies a row by its handle.
func handleText(h tkv.Handle) string { return string(h.Encoded()) }
