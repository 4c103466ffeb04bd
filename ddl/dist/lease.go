package dist

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/ddl/records"
)

const (
	// pollInterval is how often a node looks for jobs that no node runs, and for
	// requests, if it is not notified.
	pollInterval = time.Second
	// cleanInterval is how often it deletes what no node needs any more.
	cleanInterval = 10 * time.Second
	// leaveTimeout bounds what a node does so that others see at once that it has left.
	leaveTimeout = 2 * time.Second
)

// Lease is a time during which this node may have jobs: as long as it is a member of
// the cluster under one name, or always if there is no cluster.
type Lease struct {
	member member.Member // nil without a cluster
	// Ctx ends with it.
	Ctx context.Context
	end context.CancelFunc
	// executors build subtasks of jobs in it.
	executors sync.WaitGroup
	// lastRenewal is when the node has last read the jobs.
	lastRenewal atomic.Pointer[time.Time]
	// idle are the jobs of the node that nothing runs here. It belongs to the goroutine that looks for jobs.
	idle map[int64]idleJob
}

// idleJob is since when a job was seen with a revision and without anything that runs it.
type idleJob struct {
	revision int64
	since    time.Time
}

// abandonedAfter is for how long nothing runs a job before that is no accident of timing.
const abandonedAfter = 3 * time.Second

// Abandoned says that the node is a job's owner and does not run it: the answer to the
// transaction that made it the owner was lost, or the goroutine of the job has ended by mistake.
func (l *Lease) Abandoned(r *job.Record) bool {
	if seen, ok := l.idle[r.ID]; ok && seen.revision == r.Revision {
		return time.Since(seen.since) >= abandonedAfter
	}
	l.idle[r.ID] = idleJob{r.Revision, time.Now()}
	return false
}

// storeTimeout is for how long the store does not answer a member before it leaves. Membership
// is by a lease of etcd's, which may answer while the store that has the jobs does not.
const storeTimeout = 30 * time.Second

// errLeaseExpired is why a member leaves.
var errLeaseExpired = errors.New("ddl: the store has not answered for too long")

// Renew notes that the store has answered.
func (l *Lease) Renew() {
	now := time.Now()
	l.lastRenewal.Store(&now)
}

// Forget ends the suspicion that a job is abandoned.
func (l *Lease) Forget(jobID int64) { delete(l.idle, jobID) }

// watch ends the lease when the node is no member any more, when stop is closed, or when the
// store does not answer, with errLeaseExpired: then the node leaves at once, also while requests to the
// store are pending, so that others need not wait for the node.
func (l *Lease) watch(stop <-chan struct{}) (err error) {
	defer l.end()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-l.member.Gone():
			return nil
		case <-stop:
			return nil
		case <-tick.C:
		}
		if time.Since(*l.lastRenewal.Load()) < storeTimeout {
			continue
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.Ctx), leaveTimeout)
		defer cancel()
		if err := l.member.Leave(ctx); err != nil {
			return errors.Join(errLeaseExpired, err)
		}
		return errLeaseExpired
	}
}

// Name is what the records of the lease's jobs name as their owner.
func (l *Lease) Name() string {
	if l.member == nil {
		return ""
	}
	return l.member.Name()
}

// Alive says that jobs are still the node's. It reads the clock.
func (l *Lease) Alive() bool { return l.member == nil || l.member.Alive() }

// Permit fails with records.ErrLost if the node may not be a member of the cluster by now. It reads the
// clock.
func (l *Lease) Permit() error {
	if !l.Alive() {
		return records.ErrLost
	}
	return nil
}
