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

// ownRows is the condition that selects the worker's rows.
func (w *worker) ownRows() string {
	return fmt.Sprintf("WHERE id >= %d AND id < %d", w.low, w.low+idStride)
}

// resolve compares what is in the table after a restart with what must be there,
// and takes it as the worker's rows.
func (w *worker) resolve(ctx context.Context, db *sql.DB) error {
	found, err := w.t.read(ctx, db, w.ownRows())
	if err != nil {
		return err
	}
	err = w.explain(found)
	if err != nil {
		return wrongf("worker %d on %s: %w%s", w.number, w.t.name, err, w.everyWay(ctx, db, found))
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

// everyWay returns in which ways other rows are read than were found: without an index, and
// through each of them. It is for people who look for the cause.
func (w *worker) everyWay(ctx context.Context, db *sql.DB, found state) string {
	names, err := w.t.indexes(ctx, db)
	if err != nil {
		return fmt.Sprintf("; its indexes: %v", err)
	}
	var told strings.Builder
	hints := []string{"USE INDEX ()"}
	for _, name := range append([]string{"PRIMARY"}, names...) {
		hints = append(hints, "FORCE INDEX ("+name+")")
	}
	for _, hint := range hints {
		rows, err := w.t.read(ctx, db, hint+" "+w.ownRows())
		if err != nil {
			fmt.Fprintf(&told, "; with %s: %v", hint, err)
		} else if !rows.equal(found) {
			fmt.Fprintf(&told, "; with %s: %s", hint, found.difference(rows))
		}
	}
	if err := adminCheck(ctx, db, w.t.name); err != nil {
		fmt.Fprintf(&told, "; %v", err)
	}
	plan, err := w.planOf(ctx, db)
	fmt.Fprintf(&told, "; the plan was %v %v", plan, err)
	return told.String()
}

// planOf is the plan by which resolve reads the rows.
func (w *worker) planOf(ctx context.Context, db *sql.DB) (plan []string, err error) {
	query := fmt.Sprintf("EXPLAIN SELECT %s FROM %s %s", w.t.columnList(), w.t.name, w.ownRows())
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = each(ctx, conn, query, func(row []string) error {
		plan = append(plan, strings.Join(row, " "))
		return nil
	})
	return plan, err
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
