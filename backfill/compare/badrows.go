package compare

import (
	"context"
	"errors"

	"fastddl/backfill/encode"
	"fastddl/kv"
)

// FindBadRows reads at most so much.
const (
	badRowsScan  = 1 << 20   // rows
	badRowsBytes = 256 << 20 // of these
	badRowsBatch = 1 << 10   // rows at a time
)

// errEnough ends a scan that has found enough.
var errEnough = errors.New("backfill: enough rows were read")

// FindBadRows reads rows from the beginning of the table, and returns those that give an index no entry, the first MaxBadRows; nil if there are none among
// the rows that it reads. Which row ends a build depends on which worker is first.
func FindBadRows(ctx context.Context, store kv.Store, task encode.Task) (*encode.RowError, error) {
	p, err := encode.NewProjection(&task)
	if err != nil {
		return nil, err
	}
	enc, err := encode.NewEncoders(p)
	if err != nil {
		return nil, err
	}
	found := new(encode.RowError)
	rows, bytes := 0, 0
	for _, id := range encode.PhysicalIDs(task.Table) {
		err := store.ScanColumns(ctx, p.Request(encode.RecordRange(id), task.TS, badRowsBatch), func(b *kv.RowBatch) error {
			add(found, badRows(enc, b, id))
			rows += b.NumRows()
			if bytes += b.Bytes; rows >= badRowsScan || bytes >= badRowsBytes || len(found.Rows) == encode.MaxBadRows {
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
func badRows(e *encode.Encoders, b *kv.RowBatch, physicalID int64) (found *encode.RowError) {
	if err := e.Bind(b, physicalID); err != nil {
		errors.As(err, &found)
		return found
	}
	for _, enc := range e.Indexes {
		var some *encode.RowError
		if err := enc.Encode(func(int, []byte, int) error { return nil }); errors.As(err, &some) {
			if found == nil {
				found = new(encode.RowError)
			}
			add(found, some)
		}
	}
	return found
}

// add adds the rows of another error.
func add(e, other *encode.RowError) {
	if other != nil {
		e.Rows = append(e.Rows, other.Rows...)
		e.Rows = e.Rows[:min(len(e.Rows), encode.MaxBadRows)]
	}
}
