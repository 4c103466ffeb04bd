package ddl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fastddl/backfill"
	"fastddl/ddl/crew"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
)

// returned is a part as it is given back.
type returned struct {
	*heldPart
	to crew.State
	// result, if it is not nil, is kept, and err is what the attempt has failed with.
	result any
	err    error
}

// giveBack gives the parts back, and tries that until they are no longer the node's.
func (h *executor) giveBack(held *holding, parts []returned) error {
	results := make([]any, len(parts))
	for i, p := range parts {
		if p.result == nil {
			continue
		}
		data, err := json.Marshal(p.result)
		if err != nil {
			return fmt.Errorf("encode the result of a part: %w", err)
		}
		results[i] = data
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.in.ctx))
	defer cancel()
	defer context.AfterFunc(h.in.ctx, func() { // when it is leaving there is not much time
		time.AfterFunc(leaveTimeout, cancel)
	})()
	for attempt := int64(1); ; attempt++ {
		err := h.write(ctx, held.all(), func(x *session.Txn) error {
			for i, p := range parts {
				if err := h.putBack(x, held, p, results[i], i == 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			h.n.nudgeSubtasks()
			h.n.opts.cluster.Notify(ctx)
			return nil
		}
		if errors.Is(err, records.ErrLost) || !h.in.alive() || !sleep.For(ctx, job.Backoff(attempt)) {
			return err
		}
	}
}

// putBack writes the row of one part.
func (h *executor) putBack(x *session.Txn, held *holding, p returned, result any, first bool) error {
	if err := setPart(x, h.jobID, p.Released(p.to)); err != nil {
		return err
	}
	rows, imported, percent := held.shown.of(first)
	if r, done := p.result.(backfill.PartResult); done {
		rows, imported, percent = r.Rows, r.Rows, 100
	}
	var text any
	if p.err != nil {
		text = session.Shortened(job.TextForAll(p.err), maxPartError)
	}
	return x.Exec(`UPDATE mysql.fastddl_build_parts SET result = %?, error = %?, row_count = %?, imported_rows = %?, percent = %?
		WHERE job_id = %? AND part = %?`, result, text, rows, imported, percent, h.jobID, p.Number)
}

// maxPartError is the number of bytes of an error that a part's row shows.
const maxPartError = 4096

// noteFailure keeps this node from a part for a while. Other nodes may take it at once.
func (n *node) noteFailure(jobID, number int64, avoid time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble.Failed(time.Now(), jobID, number, avoid)
}

func (n *node) noteSuccess(jobID int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble.Succeeded(jobID)
}

func (n *node) avoids(jobID, number int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.trouble.Avoids(time.Now(), jobID, number)
}
