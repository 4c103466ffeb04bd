package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

const (
	// spotPlaces is at how many places of the table rows are looked at, and spotRows how many at
	// each: as many as a cluster hands out at once.
	spotPlaces, spotRows = 8, 2
)

// EntryError says that an index does not have the entry that TiDB gives one of its table's rows.
type EntryError struct {
	Index string
	// Row is the key of the row's record, Key that of the entry.
	Row, Key []byte
	// Want is the entry's value, Got what the store has; nil if it has none.
	Want, Got []byte
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("backfill: index %s differs from its table: the row at %x has the entry %x with value %x, the index has %x there",
		e.Index, e.Row, e.Key, e.Want, e.Got)
}

// SpotCheck looks up the entries of some rows from all over the table. Rows are read as they are
// stored, and their entries made by TiDB's package tables: what the build's scan or its encoders do
// wrong to all rows, or to many, is right by count and checksum. Indexes of which skip is true are
// left out.
func SpotCheck(ctx context.Context, x *execution.Execution, snap kv.Snapshot, skip []bool) error {
	spots, err := spots(ctx, x, snap)
	if err != nil || len(spots) == 0 {
		return err
	}
	return parallel.Do(ctx, len(spots), func() int { return execution.LongPlaces }, func(ctx context.Context, i int) error {
		return checkSpot(ctx, x, snap, spots[i], skip)
	})
}

// spots returns ranges at whose beginning rows are to be looked at.
func spots(ctx context.Context, x *execution.Execution, snap kv.Snapshot) ([]kv.KeyRange, error) {
	var tasks []keyrange.Weighted
	step := (len(x.Physicals) + spotPlaces - 1) / spotPlaces
	for i := 0; i < len(x.Physicals); i += step {
		some, err := keyrange.Plan(ctx, x.Opts.Store, snap, encode.RecordRange(x.Physicals[i]), x.Opts.TaskBytes, 1)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, some...)
	}
	if len(tasks) == 0 {
		return nil, nil
	}
	return keyrange.Sampled(tasks, spotPlaces), nil
}

// checkSpot looks up the entries of the first rows of r.
func checkSpot(ctx context.Context, x *execution.Execution, snap kv.Snapshot, r kv.KeyRange, skip []bool) error {
	enc, err := encode.NewLibraryRowEncoder(x.Task)
	if err != nil {
		return err
	}
	rows, err := snap.Iter(r)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 1; rows.Valid(); n++ {
		entries, err := enc.Encode(rows.Key(), rows.Value())
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := checkEntry(ctx, x, snap, rows.Key(), e, skip); err != nil {
				return err
			}
		}
		if n == spotRows {
			break
		}
		if err := rows.Next(); err != nil {
			return err
		}
	}
	return nil
}

// checkEntry looks an entry of a row up.
func checkEntry(ctx context.Context, x *execution.Execution, snap kv.Snapshot, row []byte, want encode.Entry, skip []bool) error {
	i := 0
	for x.Task.Indexes[i].ID != want.Index {
		i++
	}
	if skip[i] {
		return nil
	}
	got, err := snap.Get(ctx, want.Key)
	if err != nil && !errors.Is(err, kv.ErrNotExist) {
		return err
	}
	if err == nil && bytes.Equal(got, want.Value) {
		return nil
	}
	return &EntryError{Index: x.Task.Indexes[i].Name.O, Row: bytes.Clone(row), Key: want.Key, Want: want.Value, Got: got}
}
