package dist

import (
	"context"
	"fmt"
	"slices"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"

	"fastddl/backfill/execution"
	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

const (
	// schedulerInterval is how often the owner of a job looks at its subtasks, if it is not notified of a
	// change, and recallInterval how often while it waits until no node holds one.
	schedulerInterval = 250 * time.Millisecond
	recallInterval    = 50 * time.Millisecond
	// membersInterval is how often it looks whether their holders are members.
	membersInterval = time.Second
)

// Job is a job whose build nodes may divide, as its owner runs it.
type Job interface {
	// Record is what is durable of the job.
	Record() *job.Record
	// InLockedTxn runs a transaction that fails if the job is not the owner's any more.
	InLockedTxn(ctx context.Context, fn func(x *session.Txn) error) error
	// FenceOnce has the store refuse late imports into the job's indexes.
	FenceOnce(ctx context.Context, store kv.Fencer, r *job.Record) error
	// SetWait shows what the job waits for.
	SetWait(reason string)
}

// Scheduler divides the builds and comparisons of one job among the nodes of the cluster. It belongs to the action
// of the job that is under way.
type Scheduler struct {
	node  *Node
	id    int64
	lease *Lease
	job   Job

	// out says that other nodes may build subtasks of the job.
	out bool
	// fenced are the subtasks whose holders were gone when the last owner was fenced off, and are
	// so too. fences is how often holders of subtasks were fenced off here, and fencedAt when last.
	fenced   []Subtask
	fences   int
	fencedAt time.Time
}

// NewScheduler returns the scheduler of a job that the node has taken in a lease.
func NewScheduler(n *Node, lease *Lease, j Job, r *job.Record) *Scheduler {
	return &Scheduler{node: n, id: r.ID, lease: lease, job: j, out: n.clustered() && mayHaveSubtasks(r)}
}

// MayBeBuilt says that other nodes may build subtasks of the job.
func (s *Scheduler) MayBeBuilt() bool { return s.out }

// FencedOff notes subtasks whose holders are fenced off.
func (s *Scheduler) FencedOff(gone []Subtask) { s.fenced = gone }

// ForWork returns what divides the builds and comparisons of the job as the record has it, nil if this node builds alone.
func (s *Scheduler) ForWork(r *job.Record) execution.Scheduler {
	if !s.node.clustered() || !r.Nodes.Shared {
		return nil
	}
	return &build{s, r}
}

// reopenLost opens the subtasks whose holders are no members any more, after the store
// refuses what they may still send. The subtasks were read before the call: a holder that is
// no member now has been one. again says that others are to build them.
func (s *Scheduler) reopenLost(ctx context.Context, subtasks []Subtask, again bool) error {
	if len(Holders(subtasks)) == 0 {
		return nil
	}
	members, err := s.node.opts.Cluster.Members(ctx)
	if err != nil {
		s.node.opts.Logger.Info("cannot look who builds", zap.Int64("job", s.id), zap.Error(err))
		return nil // later
	}
	lost := Lost(subtasks, members)
	if len(lost) == 0 {
		return nil
	}
	if done, err := s.fenceHolders(ctx, lost, again); err != nil || !done {
		return err
	}
	return s.job.InLockedTxn(ctx, func(x *session.Txn) error {
		for _, p := range lost {
			now, err := readSubtask(x, s.id, p.Number)
			if err != nil {
				return err
			}
			if now == nil || !now.HeldBy(p.Holder, p.Epoch) {
				continue
			}
			s.node.opts.Logger.Info("a part of an index build has lost its node", zap.Int64("job", s.id), zap.Int64("part", p.Number), zap.String("from", p.Holder))
			if err := setHolder(x, s.id, now.Released(Open)); err != nil {
				return err
			}
		}
		return nil
	})
}

// fenceHolders makes sure that no import of nodes that have lost their subtasks comes late. If
// others are to build those it may be too early for that: each fence doubles the index's
// regions, which PD merges again after an hour, and a node that dies of what it builds comes
// back and claims again.
func (s *Scheduler) fenceHolders(ctx context.Context, lost []Subtask, again bool) (done bool, err error) {
	store, ok := s.node.opts.Builds.(kv.Fencer)
	r := s.job.Record()
	if !ok || !r.Importing() || !slices.ContainsFunc(lost, func(p Subtask) bool { return !slices.Contains(s.fenced, p) }) {
		return true, nil
	}
	now := time.Now()
	if again {
		pause, ok := FencePause(s.fences)
		if !ok {
			return false, job.Permanent(fmt.Errorf("nodes that build the index have been lost %d times, the last was %s", s.fences+1, member.NodeOf(lost[0].Holder)))
		}
		if s.fences > 0 && now.Sub(s.fencedAt) < pause {
			return false, nil
		}
	}
	if err := s.job.FenceOnce(ctx, store, r); err != nil {
		return false, err
	}
	s.fences++
	s.fencedAt = now
	return true, nil
}

// LostSubtasks returns the subtasks whose holders are no members any more, as of before the call
// of a fence.
func (s *Scheduler) LostSubtasks(ctx context.Context) ([]Subtask, error) {
	if !mayHaveSubtasks(s.job.Record()) {
		return nil, nil
	}
	subtasks, err := loadSubtasks(ctx, s.node.opts.Sessions, s.id)
	if err != nil {
		return nil, err
	}
	members, err := s.node.opts.Cluster.Members(ctx)
	if err != nil {
		return nil, nil // they are fenced off when they are looked for
	}
	return Lost(bare(subtasks), members), nil
}

// Recall makes sure that no node builds a subtask of the job, or will, until its subtasks are
// wanted again. Holders that are members end within a second; for the others the store
// refuses what they send.
func (s *Scheduler) Recall(ctx context.Context) error {
	if !s.out {
		return nil
	}
	var held bool
	err := s.job.InLockedTxn(ctx, func(x *session.Txn) error {
		subtasks, err := readSubtasks(x, s.id)
		held = len(Holders(bare(subtasks))) > 0
		if err != nil || len(subtasks) == 0 {
			return err
		}
		return x.Exec(`UPDATE mysql.fastddl_build_parts SET wanted = FALSE WHERE job_id = %? AND wanted`, s.id)
	})
	if err != nil {
		return fmt.Errorf("halt the build: %w", err)
	}
	if held {
		s.node.opts.Cluster.Notify(ctx)
		s.node.nudgeSubtasks()
		defer s.job.SetWait("")
	}
	for looked := time.Now(); held; {
		nudged := s.node.nudged()
		subtasks, err := loadSubtasks(ctx, s.node.opts.Sessions, s.id)
		if err != nil {
			return err
		}
		all := bare(subtasks)
		holders := Holders(all)
		if held = len(holders) > 0; !held {
			break
		}
		s.job.SetWait(fmt.Sprintf("%s, to end what it builds", member.NodeOf(holders[0])))
		if time.Since(looked) >= membersInterval {
			looked = time.Now()
			if err := s.reopenLost(ctx, all, false); err != nil {
				return err
			}
		}
		if !sleep.Unless(ctx, recallInterval, nudged) {
			return context.Cause(ctx)
		}
	}
	s.out = false
	return nil
}

// mayHaveSubtasks says that nodes may build subtasks of the job when a task of it begins.
func mayHaveSubtasks(r *job.Record) bool { return r.Nodes.Shared && r.MayHaveImported() }

// leastAutomaticNodes is the least number of nodes that share a build by default.
const leastAutomaticNodes = 3

// AutomaticNodes is how many nodes share a build if tidb_max_dist_task_nodes is -1: a third
// of the number of stores, as in releases of TiDB that have the variable
// (CalcMaxNodeCountByStoresNum in pkg/disttask/framework/scheduler).
func AutomaticNodes(ctx context.Context, storage tidbkv.Storage, logger *zap.Logger) int {
	cluster, ok := storage.(interface{ GetPDClient() pd.Client })
	if !ok {
		return leastAutomaticNodes
	}
	stores, err := cluster.GetPDClient().GetAllStores(ctx, pd.WithExcludeTombstone())
	if err != nil {
		logger.Info("PD does not tell the number of stores", zap.Error(err))
	}
	return max(leastAutomaticNodes, len(stores)/3)
}
