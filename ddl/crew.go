package ddl

import (
	"context"
	"fmt"
	"slices"
	"time"

	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"

	"fastddl/backfill/execution"
	"fastddl/config"
	"fastddl/ddl/crew"
	"fastddl/ddl/job"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

const (
	// crewInterval is how often the owner of a job looks at its parts, if it hears of no
	// change, and recallInterval how often while it waits for nobody to hold one.
	crewInterval   = 250 * time.Millisecond
	recallInterval = 50 * time.Millisecond
	// membersInterval is how often it looks whether their holders are members.
	membersInterval = time.Second
)

// jobCrew has the parts of a job built, or compared, by the nodes of the cluster; its owner
// runs it.
type jobCrew struct {
	t      *task
	record *job.Record
}

// crew returns what divides the job's build, nil if this node builds alone.
func (t *task) crew(r *job.Record) execution.Scheduler {
	if !t.d.clustered() || !r.Nodes.Shared {
		return nil
	}
	return &jobCrew{t, r}
}

// Build implements execution.Scheduler.
func (c *jobCrew) Build(ctx context.Context, w execution.Work) (results []execution.SubtaskResult, shared bool, err error) {
	if shared, err = c.begin(ctx, w); err != nil || !shared {
		return nil, shared, err
	}
	defer c.t.view.setWait("")
	parts, err := c.await(ctx, w)
	if err != nil {
		return nil, true, err
	}
	c.t.partsOut = false // what is done stays so: there is nobody to be recalled
	results, err = c.t.d.partResults(ctx, c.t.id, w, len(parts))
	return results, true, err
}

// sumsProtocol is the first one whose nodes know parts of a comparison of which the store sums the entries up. A
// job that was queued by an earlier one may have nodes of that.
const sumsProtocol = 3

// SumsInStore implements execution.Scheduler.
func (c *jobCrew) SumsInStore() bool { return c.record.Protocol >= sumsProtocol }

// begin makes the parts known to all nodes, those of an earlier attempt if there are any.
func (c *jobCrew) begin(ctx context.Context, w execution.Work) (shared bool, err error) {
	defer func() {
		if shared || err != nil {
			c.t.partsOut = true // what has failed may have been written
		}
	}()
	d := c.t.d
	n := crew.Count(w.Bytes, float64(d.opts.Globals.Int(config.PartSize)), c.record.Nodes.Max, func() int { return c.members(ctx) })
	if n == 0 && w.Compare {
		return false, nil
	}
	if n == 0 {
		parts, err := d.loadParts(ctx, c.t.id)
		if err != nil || !slices.ContainsFunc(parts, c.of(w)) {
			return false, err
		}
	}
	var other bool
	err = c.t.inLockedTxn(ctx, func(x *txn) (err error) {
		other, err = c.divide(x, w, n)
		return err
	})
	if err == nil && other {
		if err := c.t.recall(ctx); err != nil {
			return false, err
		}
		err = c.t.inLockedTxn(ctx, func(x *txn) error {
			if err := x.deleteParts(c.t.id); err != nil {
				return err
			}
			return x.insertParts(c.t.id, w, n)
		})
	}
	if err != nil {
		return false, fmt.Errorf("divide the build: %w", err)
	}
	d.lendHand(c.t.tenure, c.t.id)
	d.opts.Cluster.Notify(ctx)
	return true, nil
}

// members is how many nodes there are, or as many as may build if that is not to be had.
func (c *jobCrew) members(ctx context.Context) int {
	members, err := c.t.d.opts.Cluster.Members(ctx)
	if err != nil {
		c.t.d.opts.Logger.Info("cannot look how many nodes there are", zap.Int64("job", c.t.id), zap.Error(err))
		return c.record.Nodes.Max
	}
	return len(members)
}

// of returns what tells parts of the work from those of other snapshots and rounds. A
// comparison has none from before.
func (c *jobCrew) of(w execution.Work) func(part) bool {
	return func(p part) bool { return !w.Compare && p.snapshotTS == w.TS && p.round == w.Round }
}

// divide cuts the build into n parts, or wants those that it was cut into before. If there
// are parts of something other it leaves them.
func (c *jobCrew) divide(x *txn, w execution.Work, n int) (other bool, err error) {
	parts, err := x.parts(c.t.id)
	switch {
	case err != nil:
		return false, err
	case slices.ContainsFunc(parts, c.of(w)):
		return false, x.wantParts(c.t.id, parts)
	case len(parts) > 0:
		return true, nil
	}
	return false, x.insertParts(c.t.id, w, n)
}

// await returns the parts when all are done, or the error of one that has failed.
func (c *jobCrew) await(ctx context.Context, w execution.Work) ([]part, error) {
	d := c.t.d
	var looked time.Time
	parts, err := d.loadParts(ctx, c.t.id)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 { // another owner has taken them away
		return nil, errLost
	}
	for {
		nudged := d.partsNudged()
		if err := d.refreshParts(ctx, c.t.id, parts); err != nil {
			return nil, err
		}
		c.report(parts, w)
		if at := slices.IndexFunc(parts, func(p part) bool { return p.State == crew.Failed }); at >= 0 {
			return nil, partError(parts[at])
		}
		all := rules(parts)
		switch {
		case crew.AllDone(all):
			return parts, nil
		case crew.Failures(all) > d.opts.Globals.Int(config.ErrorCountLimit):
			return nil, job.Permanent(fmt.Errorf("parts of the build have failed too often, the last with: %s", lastError(parts)))
		}
		if time.Since(looked) >= membersInterval {
			looked = time.Now()
			if err := c.t.reopenLost(ctx, all, true); err != nil {
				return nil, err
			}
		}
		if !sleep.Unless(ctx, crewInterval, nudged) {
			return nil, context.Cause(ctx)
		}
	}
}

// lastError is the error that one of the parts has met.
func lastError(parts []part) string {
	for _, p := range slices.Backward(parts) {
		if p.err != "" {
			return p.err
		}
	}
	return ""
}

// report adds up what the parts say of themselves.
func (c *jobCrew) report(parts []part, w execution.Work) {
	var rows, imported int64
	read := 0.0
	for _, p := range parts {
		rows += p.rows
		imported += p.imported
		read += p.percent / 100 / float64(len(parts))
	}
	w.Progress(rows, imported, read)
	wait := ""
	if len(crew.Holders(rules(parts))) == 0 {
		wait = "a node that builds its parts"
		if text := lastError(parts); text != "" {
			wait += ", after error: " + text
		}
	}
	c.t.view.setWait(wait)
}

// reopenLost opens the parts whose holders are no members any more, after the store
// refuses what they may still send. The parts were read before the call: a holder that is
// no member now has been one. again says that others are to build them.
func (t *task) reopenLost(ctx context.Context, parts []crew.Part, again bool) error {
	if len(crew.Holders(parts)) == 0 {
		return nil
	}
	members, err := t.d.opts.Cluster.Members(ctx)
	if err != nil {
		t.d.opts.Logger.Info("cannot look who builds", zap.Int64("job", t.id), zap.Error(err))
		return nil // later
	}
	lost := crew.Lost(parts, members)
	if len(lost) == 0 {
		return nil
	}
	if done, err := t.fenceHolders(ctx, lost, again); err != nil || !done {
		return err
	}
	return t.inLockedTxn(ctx, func(x *txn) error {
		for _, p := range lost {
			now, err := x.part(t.id, p.Number)
			if err != nil {
				return err
			}
			if now == nil || !now.HeldBy(p.Holder, p.Epoch) {
				continue
			}
			t.d.opts.Logger.Info("a part of an index build has lost its node", zap.Int64("job", t.id), zap.Int64("part", p.Number), zap.String("from", p.Holder))
			if err := x.setPart(t.id, now.Released(crew.Open)); err != nil {
				return err
			}
		}
		return nil
	})
}

// fenceHolders makes sure that no import of nodes that have lost their parts comes late. If
// others are to build those it may be too early for that: each fence doubles the index's
// regions, which PD merges again after an hour, and a node that dies of what it builds comes
// back and claims again.
func (t *task) fenceHolders(ctx context.Context, lost []crew.Part, again bool) (done bool, err error) {
	store, ok := t.d.opts.Builds.(kv.Fencer)
	r := t.shown.Load()
	if !ok || !r.Importing() || !slices.ContainsFunc(lost, func(p crew.Part) bool { return !slices.Contains(t.fenced, p) }) {
		return true, nil
	}
	now := time.Now()
	if again {
		pause, ok := crew.FencePause(t.fences)
		if !ok {
			return false, job.Permanent(fmt.Errorf("nodes that build the index have been lost %d times, the last was %s", t.fences+1, nodeOf(lost[0].Holder)))
		}
		if t.fences > 0 && now.Sub(t.fencedAt) < pause {
			return false, nil
		}
	}
	if err := t.fenceOnce(ctx, store, r); err != nil {
		return false, err
	}
	t.fences++
	t.fencedAt = now
	return true, nil
}

// recall makes sure that no node builds a part of the job, or will, until its parts are
// wanted again. Holders that are members end within a second; for the others the store
// is told to refuse what they send.
func (t *task) recall(ctx context.Context) error {
	if !t.partsOut {
		return nil
	}
	var held bool
	err := t.inLockedTxn(ctx, func(x *txn) error {
		parts, err := x.parts(t.id)
		held = len(crew.Holders(rules(parts))) > 0
		if err != nil || len(parts) == 0 {
			return err
		}
		return x.exec(`UPDATE mysql.fastddl_build_parts SET wanted = FALSE WHERE job_id = %? AND wanted`, t.id)
	})
	if err != nil {
		return fmt.Errorf("halt the build: %w", err)
	}
	if held {
		t.d.opts.Cluster.Notify(ctx)
		t.d.nudgeParts()
		defer t.view.setWait("")
	}
	for looked := time.Now(); held; {
		nudged := t.d.partsNudged()
		parts, err := t.d.loadParts(ctx, t.id)
		if err != nil {
			return err
		}
		all := rules(parts)
		holders := crew.Holders(all)
		if held = len(holders) > 0; !held {
			break
		}
		t.view.setWait(fmt.Sprintf("%s, to end what it builds", nodeOf(holders[0])))
		if time.Since(looked) >= membersInterval {
			looked = time.Now()
			if err := t.reopenLost(ctx, all, false); err != nil {
				return err
			}
		}
		if !sleep.Unless(ctx, recallInterval, nudged) {
			return context.Cause(ctx)
		}
	}
	t.partsOut = false
	return nil
}

// leavesParts says that an action changes what the parts of a job depend on, so that nobody
// may build one meanwhile.
func leavesParts(act job.Action) bool {
	switch act {
	case job.ActAwaitTurn, job.ActAwaitVersion, job.ActRepublish, job.ActAwaitOlder, job.ActBackfill, job.ActSleep:
		return false
	}
	return true
}

// mayHaveParts says that nodes may build parts of the job when a task of it begins.
func mayHaveParts(r *job.Record) bool { return r.Nodes.Shared && r.MayHaveImported() }

// partsNudged returns a channel that is closed when something of a part has changed, as
// far as this node hears of it.
func (d *DDL) partsNudged() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.partsNudge
}

func (d *DDL) nudgeParts() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.partsNudge)
	d.partsNudge = make(chan struct{})
}

// leastAutomaticNodes is how many nodes share a build at the least if nothing else is said.
const leastAutomaticNodes = 3

// automaticNodes is how many nodes share a build if tidb_max_dist_task_nodes is -1: a third
// of the number of stores, as in releases of TiDB that have the variable
// (CalcMaxNodeCountByStoresNum in pkg/disttask/framework/scheduler).
func (d *DDL) automaticNodes(ctx context.Context) int {
	cluster, ok := d.opts.Storage.(interface{ GetPDClient() pd.Client })
	if !ok {
		return leastAutomaticNodes
	}
	stores, err := cluster.GetPDClient().GetAllStores(ctx, pd.WithExcludeTombstone())
	if err != nil {
		d.opts.Logger.Info("PD does not tell the number of stores", zap.Error(err))
	}
	return max(leastAutomaticNodes, len(stores)/3)
}
