package ddl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"fastddl/ddl/job"
	"fastddl/ddl/member"
)

const (
	// lookInterval is how often a node looks for jobs that nobody runs, and for
	// requests, if it hears of none.
	lookInterval = time.Second
	// forgetInterval is how often it looks for requests that nobody waits for.
	forgetInterval = 10 * time.Second
	// leaveTimeout bounds what a node does to be forgotten at once.
	leaveTimeout = 2 * time.Second
)

// clustered says that other nodes may run jobs, too.
func (d *DDL) clustered() bool { return d.opts.Cluster != nil }

// tenure is a time during which this node may have jobs: as long as it is a member of
// the cluster under one name, or always if there is no cluster.
type tenure struct {
	member member.Member // nil without a cluster
	// ctx ends with it.
	ctx context.Context
	end context.CancelFunc
	// hands build parts of jobs in it.
	hands sync.WaitGroup
	// read is when the node has last read what jobs there are.
	read atomic.Pointer[time.Time]
	// idle are the jobs of the node that nothing runs here, for whoever looks for jobs.
	idle map[int64]idleJob
}

// idleJob is since when a job was seen with a revision and without anything that runs it.
type idleJob struct {
	revision int64
	since    time.Time
}

// abandonedAfter is for how long nothing runs a job before that is no accident of timing.
const abandonedAfter = 3 * time.Second

// abandoned says that the node is a job's owner without knowing it: the answer to the
// transaction that made it so was lost, or what ran the job has ended by mistake.
func (in *tenure) abandoned(r *job.Record) bool {
	if seen, ok := in.idle[r.ID]; ok && seen.revision == r.Revision {
		return time.Since(seen.since) >= abandonedAfter
	}
	in.idle[r.ID] = idleJob{r.Revision, time.Now()}
	return false
}

// storePatience is for how long a member does not hear of the store before it leaves. Its lease
// is etcd's, which may answer while the store that has the jobs does not.
const storePatience = 30 * time.Second

// errDeaf is why a member leaves.
var errDeaf = errors.New("ddl: the store has not answered for too long")

// heard says that the store has answered.
func (in *tenure) heard() {
	now := time.Now()
	in.read.Store(&now)
}

// watch ends the tenure when the node is no member any more, when stop is closed, or when the
// store does not answer, with errDeaf: then the node leaves at once, whatever waits for the
// store, so that others need not wait for the node.
func (in *tenure) watch(stop <-chan struct{}) (err error) {
	defer in.end()
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-in.member.Gone():
			return nil
		case <-stop:
			return nil
		case <-tick.C:
		}
		if time.Since(*in.read.Load()) < storePatience {
			continue
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(in.ctx), leaveTimeout)
		defer cancel()
		if err := in.member.Leave(ctx); err != nil {
			return errors.Join(errDeaf, err)
		}
		return errDeaf
	}
}

// name is what the records of the tenure's jobs name as their owner.
func (in *tenure) name() string {
	if in.member == nil {
		return ""
	}
	return in.member.Name()
}

// alive says that jobs are still the node's. It reads the clock.
func (in *tenure) alive() bool { return in.member == nil || in.member.Alive() }

// permit fails with errLost if the node may be none of the cluster's by now. It reads the
// clock.
func (in *tenure) permit() error {
	if !in.alive() {
		return errLost
	}
	return nil
}

// begin begins a tenure.
func (d *DDL) begin(m member.Member) *tenure {
	ctx, end := context.WithCancel(d.ctx)
	in := &tenure{member: m, ctx: ctx, end: end, idle: make(map[int64]idleJob)}
	in.heard()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tenure = in
	return in
}

// now returns the tenure that the node is in, nil if it is in none.
func (d *DDL) now() *tenure {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tenure
}
