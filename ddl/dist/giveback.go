package dist

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/backfill"
	"fastddl/backfill/execution"
	"fastddl/backfill/indexstats"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
)

// returned is a subtask as it is given back.
type returned struct {
	*heldSubtask
	to State
	// result, if it is not nil, is kept, and err is what the attempt has failed with.
	result any
	err    error
}

// openAgain returns subtasks that were built together as they are open again after err. What was found wrong may lie in any
// of them.
func openAgain(subtasks []*heldSubtask, err error) []returned {
	wrong := backfill.IsWrong(err)
	back := make([]returned, len(subtasks))
	for i, p := range subtasks {
		p.Wrong = p.Wrong || wrong
		back[i] = returned{heldSubtask: p, to: Open}
	}
	return back
}

// stored is what the subtask's row holds in the place of its result; nil if there is nothing to say.
func (p *returned) stored() (any, error) {
	kept := p.result
	if kept == nil && p.Wrong {
		kept = attempts{Wrong: true}
	}
	if kept == nil {
		return nil, nil
	}
	var states []*indexstats.State
	if r, ok := kept.(execution.SubtaskResult); ok {
		states = r.Statistics
	}
	data, err := indexstats.EncodeWithin(indexstats.MaxSubtaskBytes, kept, states)
	if err != nil {
		return nil, fmt.Errorf("encode the result of a part: %w", err)
	}
	return data, nil
}

// giveBack gives the subtasks back, and tries that until they are no longer the node's.
func (h *executor) giveBack(held *holding, subtasks []returned) error {
	results := make([]any, len(subtasks))
	for i := range subtasks {
		var err error
		if results[i], err = subtasks[i].stored(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.lease.Ctx))
	defer cancel()
	defer context.AfterFunc(h.lease.Ctx, func() { // when it is leaving there is not much time
		time.AfterFunc(leaveTimeout, cancel)
	})()
	for attempt := int64(1); ; attempt++ {
		err := h.write(ctx, held.all(), func(x *session.Txn) error {
			for i, p := range subtasks {
				if err := h.putBack(x, held, p, results[i], i == 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			h.n.nudgeSubtasks()
			h.n.opts.Cluster.Notify(ctx)
			return nil
		}
		if errors.Is(err, records.ErrLost) || !h.lease.Alive() || !sleep.For(ctx, job.Backoff(attempt)) {
			return err
		}
	}
}

// putBack writes the row of one subtask.
func (h *executor) putBack(x *session.Txn, held *holding, p returned, result any, first bool) error {
	if err := setHolder(x, h.jobID, p.Released(p.to)); err != nil {
		return err
	}
	rows, imported, percent := held.shown.of(first)
	if r, done := p.result.(execution.SubtaskResult); done {
		rows, imported, percent = r.Rows, r.Rows, 100
	}
	var text any
	if p.err != nil {
		text = session.Shortened(job.TextForAll(p.err), maxErrorText)
	}
	return x.Exec(`UPDATE mysql.fastddl_build_parts SET result = %?, error = %?, row_count = %?, imported_rows = %?, percent = %?
		WHERE job_id = %? AND part = %?`, result, text, rows, imported, percent, h.jobID, p.Number)
}

// maxErrorText is the number of bytes of an error that a subtask's row shows.
const maxErrorText = 4096

// noteFailure keeps this node from a subtask for a while. Other nodes may take it at once.
func (n *Node) noteFailure(jobID, number int64, avoid time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble.Failed(time.Now(), jobID, number, avoid)
}

func (n *Node) noteSuccess(jobID int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble.Succeeded(jobID)
}

func (n *Node) avoids(jobID, number int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.trouble.Avoids(time.Now(), jobID, number)
}
