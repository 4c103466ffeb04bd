package ddl

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/ddl/status"
)

// A job whose record a later version has written is set aside, too: that version alone can go on with it or undo it. What its record
// says that can be decoded is shown; the rest is its row's in TiDB's queue.

// errLaterVersion says that no node can be asked.
var errLaterVersion = errors.New("a later version of fastddl, which alone can go on with the index build or undo it")

// formats says in words that a later version has written a record.
func formats(r *job.Record) string {
	return fmt.Sprintf("its record has format %d, this version reads up to %d", r.Protocol, job.Protocol)
}

// laterError answers requests to a job of a later version that no node runs.
func laterError(r *job.Record) error {
	return fmt.Errorf("index build %d waits for %w: %s", r.ID, errLaterVersion, formats(r))
}

// laterInfo is what is shown of a job of a later version.
func (d *DDL) laterInfo(ctx context.Context, r *job.Record) status.JobInfo {
	if r.Table == "" {
		return d.identified(ctx, r)
	}
	return status.Describe(r)
}

// warnLater logs a job that waits for a later version.
func (d *DDL) warnLater(r *job.Record) {
	info := d.laterInfo(d.ctx, r)
	d.opts.Logger.Warn("an index build was begun by a later version and waits for one", zap.Int64("job", r.ID),
		zap.String("table", info.DB+"."+info.Table), zap.String("statement", info.Query), zap.String("why", formats(r)))
}

// leftToLater says that a job waits for a later version to take it over. Where the members of the
// cluster are not known it is taken to be run.
func (d *DDL) leftToLater(ctx context.Context, r *job.Record) bool {
	if !r.Later() || !d.clustered() {
		return r.Later()
	}
	members, err := d.opts.Cluster.Members(ctx)
	return err == nil && !members[r.Owner]
}
