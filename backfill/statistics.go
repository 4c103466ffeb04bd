package backfill

import (
	"errors"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/indexstats"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/errs"
)

// errLost reports that it is not known which values an index has.
var errLost = errors.New("backfill: what was built is not wholly known: it has too many partitions, or another version of fastddl has built some of it")

// Statistics are those of an index that was built.
type Statistics struct {
	// Parts are those of physical tables, by ID: of each partition of a partitioned table, unless the index is global.
	Parts map[int64]*indexstats.Statistics
	// All are those of all partitions; nil unless the index has an entry range for each.
	All *indexstats.Statistics
}

// StatisticsOf returns the statistics of the indexes of a build that is done, from its last checkpoint, by position in the task's
// indexes. It fails if they are not known.
func StatisticsOf(checkpoint []byte, task *encode.Task, set indexstats.Settings) ([]Statistics, error) {
	known := make([]*indexstats.State, len(task.Indexes))
	if len(checkpoint) == 0 { // nothing was written: there were no rows
		for i := range known {
			known[i] = new(indexstats.State)
		}
	} else {
		cp, err := decodeCheckpoint(checkpoint, task)
		switch {
		case err != nil:
			return nil, err
		case cp == nil || len(cp.Remaining) > 0:
			return nil, errLost
		}
		known = cp.statistics()
	}
	out := make([]Statistics, len(known))
	for i, s := range known {
		idx := task.Indexes[i]
		tables, local := []int64{task.Table.ID}, task.Table.GetPartitionInfo() != nil && !encode.IsGlobal(task.Table, idx)
		if local {
			tables = encode.PhysicalIDs(task.Table)
		}
		if out[i].Parts, out[i].All = s.Result(tables, local, set); out[i].Parts == nil {
			return nil, errLost
		}
	}
	return out, nil
}

// partitioned says that the table has partitions.
func (b *build) partitioned() bool { return b.Task.Table.GetPartitionInfo() != nil }

// tableOf returns the physical table that the i-th target of a group has the entries of; the table itself if it has those of all.
func (b *build) tableOf(g *group, i int) int64 {
	t := g.targets[i]
	if !g.local[t.index] {
		return b.Task.Table.ID
	}
	return g.physicals[i-g.first[t.index]]
}

// remains says what is left of the table after a flush: rows of its group, and of other groups.
type remains struct{ group, others bool }

// none says that nothing is left of a target: one that has the entries of one partition, or of all.
func (r remains) none(local bool) bool { return !r.group && (local || !r.others) }

// mergesStatistics says that what the next flush of a group writes is to be merged with what other flushes write, or with other partitions.
func (b *build) mergesStatistics(cp *checkpoint, g *group, left remains) bool {
	for i, t := range g.targets {
		s := cp.Indexes[t.index].Statistics
		if !left.none(b.local(g, t)) || b.local(g, t) || s != nil && s.Has(b.tableOf(g, i)) {
			return true
		}
	}
	return false
}

// local says that a target has the entries of one partition of several.
func (b *build) local(g *group, t target) bool { return b.partitioned() && g.local[t.index] }

// addStatistics adds what a flush has written to what is known of the indexes. That something is not known is no error of the build.
func (b *build) addStatistics(cp *checkpoint, g *group, job *ingest.Job, left remains) {
	for i, t := range g.targets {
		index, set := &cp.Indexes[t.index], b.statistics
		if index.Statistics == nil {
			index.Statistics = &indexstats.State{Lost: index.Totals.Entries > 0}
		}
		idx := b.Task.Indexes[t.index]
		if idx.MVIndex { // TiDB keeps no options for those
			set = indexstats.DefaultSettings
		}
		local := b.local(g, t)
		w := indexstats.Written{Table: b.tableOf(g, i), Summary: job.Summary(i), Local: local, All: left.none(local), Entries: idx.MVIndex}
		err := func() (err error) {
			defer errs.Contain(&err)
			return index.Statistics.Add(w, set)
		}()
		if errors.As(err, new(*errs.PanicError)) {
			index.Statistics = &indexstats.State{Lost: true}
		}
		if err != nil {
			b.opts.Bus.Emit(event.NoStatistics{Job: b.Job(), Err: err})
		}
	}
}

// statistics returns what is known of the values, by index.
func (c *checkpoint) statistics() []*indexstats.State {
	all := make([]*indexstats.State, len(c.Indexes))
	for i := range c.Indexes {
		if all[i] = c.Indexes[i].Statistics; all[i] == nil {
			all[i] = &indexstats.State{Lost: c.Indexes[i].Totals.Entries > 0}
		}
	}
	return all
}

// joinStatistics adds what is known of a subtask's entries of the i-th index.
func (c *checkpoint) joinStatistics(i int, r execution.SubtaskResult) {
	index := &c.Indexes[i]
	if index.Statistics == nil {
		index.Statistics = new(indexstats.State)
	}
	of := &indexstats.State{Lost: r.Totals[i].Entries > 0}
	if len(r.Statistics) == len(c.Indexes) {
		of = r.Statistics[i]
	}
	_ = index.Statistics.Join(of) // it is lost then, which is said when the index becomes public
}
