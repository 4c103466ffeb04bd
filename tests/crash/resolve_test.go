package crash

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// read returns the worker's hot rows and the others that are in cur.
func (w *worker) read(ctx context.Context, q querier, cur state) (state, error) {
	out, err := w.t.read(ctx, q, fmt.Sprintf("WHERE id >= %d AND id < %d", w.low, w.low+hotIDs))
	if err != nil {
		return nil, err
	}
	var far []string
	for id := range cur {
		if id >= w.low+hotIDs {
			far = append(far, strconv.FormatInt(id, 10))
		}
	}
	if len(far) > 0 {
		more, err := w.t.read(ctx, q, fmt.Sprintf("WHERE id IN (%s)", strings.Join(far, ", ")))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, more)
	}
	return out, nil
}

// resolve compares what is in the table after a restart with what must be there,
// and takes it as the worker's rows.
func (w *worker) resolve(ctx context.Context, db *sql.DB) error {
	found, err := w.t.read(ctx, db, fmt.Sprintf("WHERE id >= %d AND id < %d", w.low, w.low+idStride))
	if err != nil {
		return err
	}
	err = w.explain(found)
	if err != nil {
		return wrongf("worker %d on %s: %w", w.number, w.t.name, err)
	}
	for _, v := range append(slices.Collect(maps.Values(w.held)), w.begun...) {
		w.holders.end(v)
	}
	w.rows, w.begun, w.doubt, w.sure = found, nil, nil, false
	for id, r := range found {
		w.held[id] = w.holders.begin(r)
	}
	return nil
}

func (w *worker) explain(found state) error {
	unchanged := w.rows.equal(found)
	switch {
	case unchanged && !w.sure:
		return nil
	case w.doubt == nil:
		return fmt.Errorf("acknowledged rows are lost, or rows that were never committed are there: %s", w.rows.difference(found))
	}
	doubt := w.doubt(found)
	if doubt == nil {
		return nil
	}
	return fmt.Errorf("rows are neither as before the last commit nor as after it: %s; %w (acknowledged: %v)",
		w.rows.difference(found), doubt, w.sure)
}
