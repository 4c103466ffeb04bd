package sql

import (
	"context"
	"sync"

	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"
	"github.com/tikv/client-go/v2/tikvrpc/interceptor"
)

// clientRows are the rows of a client's statement. Part of the statement runs when they are fetched and when they are closed: it may
// commit only then. Errors get their codes here, too.
type clientRows struct {
	sqlexec.RecordSet
	// killer knows whether the session's statement was killed.
	killer *sqlkiller.SQLKiller
	// end ends the statement's measurement when the rows are closed; nil if it is not measured, or no longer.
	end func()
	// commits watches what the statement commits while its rows are fetched, as TRACE does; nil if it commits nothing.
	commits interceptor.RPCInterceptor
	// demand is how many rows are asked for at a time.
	demand demand

	// finishing is held while the rows are finished, and finished says that they have been: a KILL does it from another goroutine.
	finishing sync.Mutex
	finished  bool
}

// NewChunk implements sqlexec.RecordSet. TiDB excludes a KILL for Next and Close only (resultset.go:65), and panics here if
// the KILL was faster (adapter.go:193 of package executor). Next with an empty chunk then returns ErrQueryInterrupted.
func (r *clientRows) NewChunk(alloc chunk.Allocator) *chunk.Chunk {
	r.finishing.Lock()
	defer r.finishing.Unlock()
	if r.finished {
		return chunk.NewEmptyChunk(nil)
	}
	return r.RecordSet.NewChunk(alloc)
}

// Next implements sqlexec.RecordSet.
func (r *clientRows) Next(ctx context.Context, req *chunk.Chunk) error {
	r.demand.ask(req)
	if err := r.RecordSet.Next(watched(ctx, r.commits), req); err != nil {
		return withErrorCode(ctx, err, r.killer)
	}
	r.demand.got(req)
	return nil
}

// Close implements sqlexec.RecordSet.
func (r *clientRows) Close() error {
	r.endMeasurement()
	return withErrorCode(context.Background(), r.RecordSet.Close(), r.killer)
}

func (r *clientRows) endMeasurement() {
	if r.end != nil {
		r.end()
		r.end = nil
	}
}

// Finish is called by the server before Close, where it is there.
func (r *clientRows) Finish() error {
	r.finishing.Lock()
	defer r.finishing.Unlock()
	r.finished = true
	if rows, ok := r.RecordSet.(interface{ Finish() error }); ok {
		return withErrorCode(context.Background(), rows.Finish(), r.killer)
	}
	return nil
}

// OnFetchReturned is called by the server after each fetch of a cursor.
func (r *clientRows) OnFetchReturned() {
	if rows, ok := r.RecordSet.(interface{ OnFetchReturned() }); ok {
		rows.OnFetchReturned()
	}
}

// TryDetach implements sqlexec.DetachableRecordSet. Rows that are fetched later do
// not count as a running statement.
func (r *clientRows) TryDetach() (sqlexec.RecordSet, bool, error) {
	rows, ok := r.RecordSet.(sqlexec.DetachableRecordSet)
	if !ok {
		return nil, false, nil
	}
	detached, ok, err := rows.TryDetach()
	if ok {
		r.endMeasurement()
	}
	if !ok || err != nil {
		return nil, ok, withErrorCode(context.Background(), err, r.killer)
	}
	return &clientRows{RecordSet: detached, killer: r.killer}, true, nil
}
