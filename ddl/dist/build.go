package dist

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"fastddl/backfill/execution"
	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// build divides one build, or comparison, of a job.
type build struct {
	s      *Scheduler
	record *job.Record
}

// Build implements execution.Scheduler.
func (c *build) Build(ctx context.Context, w execution.Work) (results []execution.SubtaskResult, shared bool, err error) {
	if shared, err = c.begin(ctx, w); err != nil || !shared {
		return nil, shared, err
	}
	defer c.s.job.SetWait("")
	subtasks, err := c.await(ctx, w)
	if err != nil {
		return nil, true, err
	}
	c.s.out = false // what is done stays so: no node is to be recalled
	results, err = loadResults(ctx, c.s.node.opts.Sessions, c.s.id, w, len(subtasks))
	for _, r := range results {
		kv.MeterOf(ctx).Add(r.Stores)
	}
	return results, true, err
}

// sumsProtocol is the first one whose nodes know subtasks of a comparison of which the store sums the entries up. A
// job that was queued by an earlier one may have nodes of that.
const sumsProtocol = 3

// SumsInStore implements execution.Scheduler.
func (c *build) SumsInStore() bool { return c.record.Protocol >= sumsProtocol }

// begin makes the subtasks known to all nodes, those of an earlier attempt if there are any.
func (c *build) begin(ctx context.Context, w execution.Work) (shared bool, err error) {
	defer func() {
		if shared || err != nil {
			c.s.out = true // what has failed may have been written
		}
	}()
	node := c.s.node
	n := Count(w.Bytes, float64(node.opts.Globals.Int(config.PartSize)), c.record.Nodes.Max, func() int { return c.members(ctx) })
	if n == 0 && w.Compare {
		return false, nil
	}
	if n == 0 {
		subtasks, err := loadSubtasks(ctx, c.s.node.opts.Sessions, c.s.id)
		if err != nil || !slices.ContainsFunc(subtasks, c.of(w)) {
			return false, err
		}
	}
	var other bool
	err = c.s.job.InLockedTxn(ctx, func(x *session.Txn) (err error) {
		other, err = c.divide(x, w, n)
		return err
	})
	if err == nil && other {
		if err := c.s.Recall(ctx); err != nil {
			return false, err
		}
		err = c.s.job.InLockedTxn(ctx, func(x *session.Txn) error {
			if err := DeleteSubtasks(x, c.s.id); err != nil {
				return err
			}
			return insertSubtasks(x, c.s.id, w, n)
		})
	}
	if err != nil {
		return false, fmt.Errorf("divide the build: %w", err)
	}
	node.startExecutor(c.s.lease, c.s.id)
	node.opts.Cluster.Notify(ctx)
	return true, nil
}

// members is how many nodes there are, or as many as may build if that cannot be found out.
func (c *build) members(ctx context.Context) int {
	members, err := c.s.node.opts.Cluster.Members(ctx)
	if err != nil {
		c.s.node.opts.Logger.Info("cannot look how many nodes there are", zap.Int64("job", c.s.id), zap.Error(err))
		return c.record.Nodes.Max
	}
	return len(members)
}

// of returns what distinguishes subtasks of the work from those of other snapshots and rounds. A
// comparison has none from before.
func (c *build) of(w execution.Work) func(storedSubtask) bool {
	return func(p storedSubtask) bool { return !w.Compare && p.snapshotTS == w.TS && p.round == w.Round }
}

// divide cuts the build into n subtasks, or wants those that it was cut into before. It
// returns other, and leaves the subtasks, if they are of other work.
func (c *build) divide(x *session.Txn, w execution.Work, n int) (other bool, err error) {
	subtasks, err := readSubtasks(x, c.s.id)
	switch {
	case err != nil:
		return false, err
	case slices.ContainsFunc(subtasks, c.of(w)):
		return false, wantSubtasks(x, c.s.id, subtasks)
	case len(subtasks) > 0:
		return true, nil
	}
	return false, insertSubtasks(x, c.s.id, w, n)
}

// await returns the subtasks when all are done, or the error of one that has failed.
func (c *build) await(ctx context.Context, w execution.Work) ([]storedSubtask, error) {
	n := c.s.node
	var checked time.Time
	subtasks, err := loadSubtasks(ctx, c.s.node.opts.Sessions, c.s.id)
	if err != nil {
		return nil, err
	}
	if len(subtasks) == 0 { // another owner has taken them away
		return nil, records.ErrLost
	}
	for {
		nudged := n.nudged()
		if err := refreshSubtasks(ctx, c.s.node.opts.Sessions, c.s.id, subtasks); err != nil {
			return nil, err
		}
		c.report(subtasks, w)
		if at := slices.IndexFunc(subtasks, func(p storedSubtask) bool { return p.State == Failed }); at >= 0 {
			return nil, subtaskError(subtasks[at])
		}
		all := bare(subtasks)
		switch {
		case AllDone(all):
			return subtasks, nil
		case Failures(all) > n.opts.Globals.Int(config.ErrorCountLimit):
			return nil, job.Permanent(fmt.Errorf("parts of the build have failed too often, the last with: %s", lastError(subtasks)))
		}
		if time.Since(checked) >= membersInterval {
			checked = time.Now()
			if err := c.s.reopenLost(ctx, all, true); err != nil {
				return nil, err
			}
		}
		if !sleep.Unless(ctx, schedulerInterval, nudged) {
			return nil, context.Cause(ctx)
		}
	}
}

// lastError is the error that one of the subtasks has met.
func lastError(subtasks []storedSubtask) string {
	for _, p := range slices.Backward(subtasks) {
		if p.err != "" {
			return p.err
		}
	}
	return ""
}

// report adds up the progress of the subtasks.
func (c *build) report(subtasks []storedSubtask, w execution.Work) {
	var rows, imported int64
	read := 0.0
	for _, p := range subtasks {
		rows += p.rows
		imported += p.imported
		read += p.percent / 100 / float64(len(subtasks))
	}
	w.Progress(rows, imported, read)
	wait := ""
	if len(Holders(bare(subtasks))) == 0 {
		wait = "a node that builds its parts"
		if text := lastError(subtasks); text != "" {
			wait += ", after error: " + text
		}
	}
	c.s.job.SetWait(wait)
}
