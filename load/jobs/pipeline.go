package jobs

import (
	"cmp"
	"context"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/load"
	"fastddl/load/rows"
)

// pipeline is package load as a Loader.
type pipeline struct{ opts load.Options }

// NewLoader returns the Loader that is package load. Of opts a Task sets what differs from import to import.
func NewLoader(opts load.Options) Loader { return &pipeline{opts} }

// Load implements Loader.
func (p *pipeline) Load(ctx context.Context, t Task) (Result, error) {
	source, err := p.open(ctx, t)
	if err != nil {
		return Result{}, err
	}
	opts, progress := p.opts, new(load.Progress)
	opts.Progress, opts.SaveCheckpoint, opts.Settings = progress, t.SaveCheckpoint, new(ingest.LiveSettings)
	opts.Settings.Set(ingest.Settings{Workers: min(t.Threads, maxThreads), WriteSpeed: int64(t.Controller.MaxWriteSpeed)})
	if t.Query != nil || t.Feed != nil { // they cannot be read again
		opts.SaveCheckpoint = nil
	}
	t.Progress(func() Progress {
		now := progress.Get()
		return Progress{
			Rows: now.Rows, Read: now.SourceRead, Bytes: now.SourceBytes, Percent: 100 * now.Done(), Verifying: now.Stage == load.Verifying,
		}
	})
	loaded, err := load.Run(ctx, opts, load.Spec{
		JobID: t.ID, Source: source, Table: t.Table, IDs: stateOf(t.Table, t.AutoIDs), Checkpoint: t.Checkpoint,
		MaxErrors: t.MaxErrors, Verify: t.Verify,
	})
	if err != nil {
		return Result{}, err
	}
	return Result{
		Rows: loaded.Rows, Partitions: loaded.RowsOf, Statistics: loaded.Statistics,
		AutoIDs: model.AutoIDGroup{RowID: loaded.IDs.RowID, IncrementID: loaded.IDs.AutoIncrement, RandomID: loaded.IDs.AutoRandom},
	}, nil
}

// maxThreads is the limit of a job's workers.
const maxThreads = 256

func (p *pipeline) open(ctx context.Context, t Task) (*rows.Source, error) {
	if t.Feed != nil {
		return rows.FromFeed(t.Controller, t.Table, t.Feed, rows.FeedDisk{Dir: p.opts.TempDir, Occupy: p.Occupy, MaxState: p.maxState()})
	}
	if t.Query != nil {
		return rows.FromQuery(t.Controller, t.Table, t.Query, cmp.Or(t.Threads, flow.Cores()))
	}
	return rows.Open(ctx, t.Controller, t.Table)
}

// errDiskQuota and errDiskRoom refuse to keep a file, or its rows until it is known which of them stay.
var (
	errDiskQuota = dbterror.ClassExecutor.NewStdErr(errno.ErrDiskFull,
		mysql.Message("the files and rows that LOAD DATA keeps until they are imported take more than half of tidb_ddl_disk_quota: raise it, or load the file by IMPORT INTO", nil))
	errDiskRoom = dbterror.ClassExecutor.NewStdErr(errno.ErrDiskFull,
		mysql.Message("the files and rows that LOAD DATA keeps until they are imported take more than half of the room on the disk of the temp folder: make room, or load the file by IMPORT INTO", nil))
)

// maxState bounds what a feed decides about rows with equal keys in; 0 is its own bound.
func (p *pipeline) maxState() int64 {
	if p.opts.Resources == nil {
		return 0
	}
	return max(p.opts.Resources.SpareMemory(), 1<<20)
}

// Occupy implements Loader.
func (p *pipeline) Occupy(n int64) error {
	if p.opts.Resources == nil {
		return nil
	}
	switch p.opts.Resources.Occupy(n, p.room(n)) {
	case ingest.OverQuota:
		return errDiskQuota.FastGenByArgs()
	case ingest.OverRoom:
		return errDiskRoom.FastGenByArgs()
	}
	return nil
}

// room measures the disk of the temp folder; nil if it is not asked for, or not known.
func (p *pipeline) room(n int64) *vfs.DiskUsage {
	if n <= 0 {
		return nil
	}
	fs := p.opts.FS
	if fs == nil {
		fs = vfs.Default
	}
	usage, err := fs.GetDiskUsage(p.opts.TempDir)
	if err != nil {
		return nil // there are file systems that do not know
	}
	return &usage
}

// stateOf is what a table has given out before, as package rows has it. Row IDs and AUTO_INCREMENT may share a counter.
func stateOf(table *model.TableInfo, ids model.AutoIDGroup) rows.State {
	s := rows.State{RowID: ids.RowID, AutoIncrement: ids.IncrementID, AutoRandom: ids.RandomID}
	if !table.SepAutoInc() {
		s.AutoIncrement = ids.RowID
	}
	return s
}
