package backfill

import (
	"context"
	"errors"

	"fastddl/kv"
)

// What FindBadRows reads at the most.
const (
	badRowsScan  = 1 << 20   // rows
	badRowsBytes = 256 << 20 // of these
	badRowsBatch = 1 << 10   // rows at a time
)

// errEnough ends a scan that has found enough.
var errEnough = errors.New("backfill: enough rows were read")

// FindBadRows reads rows from the beginning of the table, and returns those that give an index no entry, the first MaxBadRows; nil if there are none among
// the rows that it reads. Which row ends a build depends on which worker is first.
func FindBadRows(ctx context.Context, store kv.Store, task Task) (*RowError, error) {
	p, err := newProjection(&task)
	if err != nil {
		return nil, err
	}
	enc, err := newEncoders(p)
	if err != nil {
		return nil, err
	}
	found := new(RowError)
	rows, bytes := 0, 0
	for _, id := range physicalIDs(task.Table) {
		err := store.ScanColumns(ctx, p.request(recordRange(id), task.TS, badRowsBatch), func(b *kv.RowBatch) error {
			add(found, badRows(enc, b, id))
			rows += b.NumRows()
			if bytes += b.Bytes; rows >= badRowsScan || bytes >= badRowsBytes || len(found.Rows) == MaxBadRows {
				return errEnough
			}
			return ctx.Err()
		})
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if len(found.Rows) == 0 {
		return nil, nil
	}
	return found, nil
}

// badRows returns the rows of a batch that give an index no entry, nil if all give one.
func badRows(e *encoders, b *kv.RowBatch, physicalID int64) (found *RowError) {
	if err := e.bind(b, physicalID); err != nil {
		errors.As(err, &found)
		return found
	}
	for _, enc := range e.indexes {
		var some *RowError
		if err := enc.encode(func(int, []byte, int) error { return nil }); errors.As(err, &some) {
			if found == nil {
				found = new(RowError)
			}
			add(found, some)
		}
	}
	return found
}

// add adds the rows of another error.
func add(e, other *RowError) {
	if other != nil {
		e.Rows = append(e.Rows, other.Rows...)
		e.Rows = e.Rows[:min(len(e.Rows), MaxBadRows)]
	}
}
