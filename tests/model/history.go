package model

import (
	"cmp"
	"slices"
	"sync"

	tkv "github.com/pingcap/tidb/pkg/kv"
)

// write is what a transaction did to one row: its new text, or "" for a
// deletion.
type write struct {
	handle string
	text   string
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

// rowsAt returns the rows at ts: their texts by handle.
func (h *history) rowsAt(ts uint64) map[string]string {
	h.mu.Lock()
	commits := slices.Clone(h.commits)
	h.mu.Unlock()
	slices.SortFunc(commits, func(a, b commit) int { return cmp.Compare(a.ts, b.ts) })
	rows := make(map[string]string)
	for _, c := range commits {
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

// handleText identifies a row by its handle.
func handleText(h tkv.Handle) string { return string(h.Encoded()) }
