package load

import (
	"errors"

	"fastddl/backfill"
	"fastddl/backfill/indexstats"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/errs"
)

// settings are those that shape the statistics of a space.
func (l *loader) settings(s *space) indexstats.Settings {
	if s.values.MVIndex { // TiDB keeps no options for those
		return indexstats.DefaultSettings
	}
	return l.spec.Statistics.WithDefaults()
}

// addStatistics adds what a flush has written to what is known of the indexes; once says that it has written all. That something is not
// known is no error of the load.
func (l *loader) addStatistics(cp *checkpoint, job *ingest.Job, once bool) {
	for i := range l.layout.spaces {
		s, known := &l.layout.spaces[i], &cp.Spaces[i]
		if s.spec.Columns == 0 {
			continue
		}
		err := func() (err error) {
			defer errs.Contain(&err)
			return l.addWritten(known.Statistics, s, job, i, once)
		}()
		if errors.As(err, new(*errs.PanicError)) {
			known.Statistics = &indexstats.State{Lost: true}
		}
		if err != nil {
			l.opts.Bus.Emit(event.NoStatistics{Job: l.job(), Err: err})
		}
	}
}

// addWritten adds what a flush has written of the i-th space.
func (l *loader) addWritten(known *indexstats.State, s *space, job *ingest.Job, i int, once bool) error {
	w := indexstats.Written{Table: l.layout.table.ID, All: once, Local: s.local(), Entries: s.values.MVIndex}
	sums := job.Summaries(i)
	if !w.Local || sums == nil { // what is not known is lost
		w.Summary = sums[""]
		return known.Add(w, l.settings(s))
	}
	for at, id := range l.layout.physicals {
		key := s.ranges[at].Start[len(s.spec.Prefix):][:s.spec.FileKey]
		if w.Table, w.Summary = id, sums[string(key)]; w.Summary == nil {
			continue
		}
		if err := known.Add(w, l.settings(s)); err != nil {
			return err
		}
	}
	return nil
}

// statistics returns those that are known, by index ID.
func (l *loader) statistics(cp *checkpoint) map[int64]backfill.Statistics {
	known := make(map[int64]backfill.Statistics)
	for i := range l.layout.spaces {
		s := &l.layout.spaces[i]
		if s.spec.Columns == 0 {
			continue
		}
		tables := []int64{l.layout.table.ID}
		if s.local() {
			tables = l.layout.physicals
		}
		if parts, all := cp.Spaces[i].Statistics.Result(tables, s.local(), l.settings(s)); parts != nil {
			known[s.values.ID] = backfill.Statistics{Parts: parts, All: all}
		}
	}
	return known
}
