package pebblekv

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"
	"go.uber.org/zap"

	"fastddl/flow"
)

// urgentDepth is the number of L0 files over each other from which a compaction
// may not wait for the foreground: twice as many as start one, and well below
// those that stall writers.
const urgentDepth = 2 * l0CompactionSubs

// compactions keeps the engine's compactions from holding up statements: each runs
// on a thread of low priority, with a processor of the scheduler's of its own,
// unless L0 is so high that writers would soon have to wait for it. The engine
// calls it with a lock held, so that it needs none.
type compactions struct {
	log     *zap.Logger
	release map[int]func() // by job
}

func newCompactions(log *zap.Logger) *compactions {
	return &compactions{log: log, release: make(map[int]func())}
}

// begin is called by the goroutine that runs the compaction and nothing else.
func (c *compactions) begin(info pebble.CompactionInfo) {
	if urgent(info) || flow.LeaveOutCompactions {
		return
	}
	c.release[info.JobID] = flow.Reserve(1)
	flow.BackgroundThread()
}

func (c *compactions) end(info pebble.CompactionInfo) {
	if c.log.Core().Enabled(zap.DebugLevel) {
		c.log.Debug(info.String())
	}
	if release, ok := c.release[info.JobID]; ok {
		delete(c.release, info.JobID)
		release()
	}
}

func urgent(info pebble.CompactionInfo) bool {
	for _, in := range info.Input {
		if in.Level == 0 && depth(in.Tables) >= urgentDepth {
			return true
		}
	}
	return false
}

// depth is the greatest number of tables that hold the same key.
func depth(tables []pebble.TableInfo) int {
	type bound struct {
		key  []byte
		step int
	}
	bounds := make([]bound, 0, 2*len(tables))
	for _, t := range tables {
		bounds = append(bounds, bound{t.Smallest.UserKey, 1}, bound{t.Largest.UserKey, -1})
	}
	slices.SortFunc(bounds, func(a, b bound) int {
		if c := cockroachkvs.Comparer.Compare(a.key, b.key); c != 0 {
			return c
		}
		return b.step - a.step // bounds belong to the table
	})
	most, now := 0, 0
	for _, b := range bounds {
		now += b.step
		most = max(most, now)
	}
	return most
}
