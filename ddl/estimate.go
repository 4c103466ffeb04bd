package ddl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/backfill/survey"
	"fastddl/config"
	"fastddl/ddl/dist"
	"fastddl/ddl/estimate"
	"fastddl/ddl/job"
	"fastddl/ddl/schema"
	"fastddl/ddl/verdict"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/kv"
)

// Estimation is what is known of a build before it begins.
type Estimation struct {
	estimate.Estimate
	// JobsAhead are the jobs that it would wait for; nil if they are not known.
	JobsAhead []int64 `json:"jobs_ahead"`
	// Transactions is how many open transactions it would wait for, OldestTransaction since when the oldest is open.
	Transactions      int           `json:"open_transactions"`
	OldestTransaction time.Duration `json:"-"`
	// Rows is what the sampled rows do not let be built: an error with their values for those who may SELECT them, and without
	// values for all; nil without such rows.
	RowsError *job.RowsError `json:"-"`
}

const (
	// lookPatience bounds the time of each look of an estimate beside its survey.
	lookPatience = 500 * time.Millisecond
	// learnedHistory is how many jobs of the history rates are learned from.
	learnedHistory = 100
)

// Estimate says what the build of a request would cost, within about three seconds on a table of any size. It changes nothing. It fails if the
// indexes cannot be built here (encode.ErrUnsupported), or with an error of the store.
func (d *DDL) Estimate(ctx context.Context, sctx sessionctx.Context, req Request) (*Estimation, error) {
	task, err := d.estimatedTask(ctx, sctx, req)
	if err != nil {
		return nil, err
	}
	found, err := survey.Take(ctx, survey.Options{Store: d.opts.Builds, Seed: task.TS}, task)
	if err != nil {
		return nil, err
	}
	in := d.estimateInput(ctx, req, task, found)
	in.Rates = d.rates(ctx, float64(found.ReadBytes)/float64(max(1, found.Rows)))
	e := &Estimation{Estimate: estimate.Of(in)}
	e.RowsError = d.rowsError(ctx, task, found)
	ahead, err := look(ctx, func(ctx context.Context) ([]int64, error) {
		return schema.JobsAhead(ctx, d.sessions, req.Schema.Name.L, req.Table.Name.L)
	})
	if err == nil {
		e.JobsAhead = append([]int64{}, ahead...)
	} else {
		d.opts.Logger.Info("the jobs that a build would wait for are not known", zap.Error(err))
	}
	looking, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	e.Transactions, e.OldestTransaction = d.waits.Open(looking, req.Table.ID, sctx.GetSessionVars().ConnectionID)
	return e, ctx.Err()
}

// look returns what f finds within lookPatience; others that came before it take none of its time.
func look[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	return f(ctx)
}

// estimatedTask describes the indexes of a request as if they were there now.
func (d *DDL) estimatedTask(ctx context.Context, sctx sessionctx.Context, req Request) (encode.Task, error) {
	table := req.Table.Clone()
	var indexes []*model.IndexInfo
	for _, arg := range req.Indexes {
		idx, err := schema.AddIndex(table, arg)
		if err != nil {
			return encode.Task{}, err
		}
		indexes = append(indexes, idx)
	}
	ts, err := d.opts.Builds.CurrentTS(ctx)
	if err != nil {
		return encode.Task{}, fmt.Errorf("take timestamp: %w", err)
	}
	loc, err := req.Meta.Location.GetLocation()
	if err != nil {
		return encode.Task{}, fmt.Errorf("time zone of the session: %w", err)
	}
	return encode.Task{
		Table: table, Indexes: indexes, TS: ts, SQLMode: req.Meta.SQLMode, Location: loc, Functions: functionsOf(sctx),
	}, nil
}

// estimateInput is what an estimate is made of, but for the rates.
func (d *DDL) estimateInput(ctx context.Context, req Request, task encode.Task, found *survey.Survey) estimate.Input {
	disks, usage := d.disks(ctx)
	var live ingest.LiveSettings
	live.Set(dist.LiveSettings(req.Settings))
	in := estimate.Input{
		Rows: found.Rows, Exact: found.Exact, RowsError: found.RowsError, ReadBytes: found.ReadBytes,
		Sampled: found.Sampled, Complete: found.Complete,
		Full: req.Verify == config.VerifyFull, Compared: req.Table.TTLInfo != nil,
		Outlook: d.opts.Backfiller.Outlook(ingest.ShareOptions{Indexes: len(task.Indexes), Settings: &live}, usage),
		Cores:   flow.Cores(), CheckpointSeconds: d.opts.Globals.Duration(config.CheckpointInterval).Seconds(),
		Disks: disks, Nodes: 1, Groups: backfill.Groups(task.Table, task.Indexes),
	}
	physicals := encode.PhysicalIDs(task.Table)
	for k, idx := range task.Indexes {
		measured := &found.Indexes[k]
		in.Indexes = append(in.Indexes, estimate.Index{
			Name: idx.Name.O, Unique: idx.Unique, SampleEntries: measured.Entries, SampleBytes: measured.Bytes,
			Stored: points(measured.Stored), Sorted: points(measured.Sorted), Repeated: measured.Repeated,
			Beginning: indexThatBegins(req.Table, idx), Targets: int64(len(encode.IndexIDs(task.Table, idx, physicals))),
		})
	}
	return in
}

func points(densities []survey.Density) (out []estimate.Point) {
	for _, p := range densities {
		out = append(out, estimate.Point{Entries: p.Entries, Bytes: p.Bytes})
	}
	return out
}

// indexThatBegins returns the name of a public index of a table whose first columns are all of those of idx; empty without one.
func indexThatBegins(table *model.TableInfo, idx *model.IndexInfo) string {
	for _, other := range table.Indices {
		if other.State != model.StatePublic || other.MVIndex != idx.MVIndex || len(other.Columns) < len(idx.Columns) {
			continue
		}
		same := slices.EqualFunc(other.Columns[:len(idx.Columns)], idx.Columns, func(a, b *model.IndexColumn) bool {
			return a.Name.L == b.Name.L && a.Length == b.Length
		})
		if same {
			return other.Name.O
		}
	}
	if pk := table.GetPkColInfo(); table.PKIsHandle && pk != nil && len(idx.Columns) == 1 && idx.Columns[0].Name.L == pk.Name.L {
		return "PRIMARY"
	}
	return ""
}

// rates learns from the builds that have ended; without them the measured costs hold.
func (d *DDL) rates(ctx context.Context, rowBytes float64) estimate.Rates {
	history, err := look(ctx, func(ctx context.Context) ([]*job.Record, error) { return d.records.History(ctx, learnedHistory) })
	if err != nil {
		d.opts.Logger.Info("builds that have ended say nothing of the time that one takes", zap.Error(err))
		return nil
	}
	var builds []estimate.Past
	for _, r := range history {
		if r.State == model.JobStateSynced {
			builds = append(builds, pastBuild(r))
		}
	}
	return estimate.Learn(builds, rowBytes)
}

// pastBuild is what a build that has ended did.
func pastBuild(r *job.Record) estimate.Past {
	cores := float64(flow.Cores())
	p := estimate.Past{Seconds: make(map[string]float64), Work: estimate.Work{Workers: cores, Mergers: cores + 1, Cores: cores}}
	p.Full = r.Verify == config.VerifyFull
	for _, s := range r.History.Stages {
		p.Seconds[s.Stage] = s.Seconds
		switch s.Stage {
		case job.StageScan:
			p.Rows, p.EntryBytes = float64(s.Rows), float64(s.Bytes)
			p.Entries = p.Rows * float64(len(r.Indexes))
			if s.WorkSeconds > 0 { // without what the build has yielded to statements or waited for a limit
				p.Seconds[s.Stage] = min(s.Seconds, s.WorkSeconds/cores)
			}
		case job.StageMerge:
			if s.WorkSeconds > 0 {
				p.Seconds[s.Stage] = min(s.Seconds, s.WorkSeconds/cores)
			}
		case job.StageCompare:
			p.Compared = true
		case job.StageWait: // without waits for others, a window, or the publication
			for _, w := range r.History.Waited {
				p.Seconds[s.Stage] -= w.Seconds
			}
			p.Seconds[s.Stage] = max(0, p.Seconds[s.Stage])
		}
	}
	return p
}

// rowsError returns what the sampled rows do not let be built, with these rows.
func (d *DDL) rowsError(ctx context.Context, task encode.Task, found *survey.Survey) *job.RowsError {
	err := found.RowError
	if err == nil {
		var groups []*ingest.DuplicateGroup
		for _, idx := range found.Indexes {
			groups = append(groups, idx.Duplicates...)
		}
		if len(groups) == 0 {
			return nil
		}
		err = &ingest.DuplicateError{Groups: groups}
	}
	v, ok := verdict.OfSample(ctx, d.opts.Builds, task, err)
	if !ok {
		return nil
	}
	var rows *job.RowsError
	if errors.As(v, &rows) {
		return rows
	}
	return nil
}

// IndexBytes returns what indexes of a table occupy in the store, by name in lower case. It is empty if the store knows no sizes, or those
// of its regions only.
func (d *DDL) IndexBytes(ctx context.Context, tableID int64, names []string) (map[string]int64, error) {
	sizes := make(map[string]int64)
	if _, regions := d.opts.Builds.(kv.RoomReporter); regions {
		return sizes, nil
	}
	table, ok := d.opts.Domain.InfoSchema().TableByID(ctx, tableID)
	if !ok {
		return sizes, nil
	}
	physicals := encode.PhysicalIDs(table.Meta())
	for _, name := range names {
		idx := table.Meta().FindIndexByName(name)
		if idx == nil {
			continue
		}
		for _, id := range encode.IndexIDs(table.Meta(), idx, physicals) {
			size, err := d.storedBytes(ctx, encode.IndexRange(id, idx.ID))
			if err != nil {
				return nil, fmt.Errorf("size of index %s: %w", name, err)
			}
			sizes[name] += size
		}
	}
	return sizes, nil
}

// storedBytes is what keys occupy in the store, by its own estimate.
func (d *DDL) storedBytes(ctx context.Context, keys kv.KeyRange) (size int64, err error) {
	ranges, err := d.opts.Builds.Ranges(ctx, keys)
	if err != nil {
		return 0, err
	}
	for _, r := range ranges {
		size += int64(r.Bytes)
	}
	return size, nil
}
