package crash

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// state is the rows of one worker, or those of them that a transaction deals
// with.
type state map[int64]row

func (s state) equal(o state) bool {
	return maps.EqualFunc(s, o, func(a, b row) bool { return a.String() == b.String() })
}

// difference names up to three rows that two states do not agree on.
func (s state) difference(got state) string {
	var b strings.Builder
	n := 0
	report := func(format string, args ...any) {
		if n++; n <= 3 {
			fmt.Fprintf(&b, "\n  "+format, args...)
		}
	}
	for id, r := range s {
		if g, ok := got[id]; !ok {
			report("missing %s", r)
		} else if g.String() != r.String() {
			report("got %s, want %s", g, r)
		}
	}
	for id, r := range got {
		if _, ok := s[id]; !ok {
			report("unexpected %s", r)
		}
	}
	return fmt.Sprintf("%d rows differ:%s", n, b.String())
}

// with returns a copy in which some rows are others.
func (s state) with(rows ...row) state {
	out := maps.Clone(s)
	for _, r := range rows {
		out[r.id] = r
	}
	return out
}

// statement is a DML statement with what it may do.
type statement struct {
	sql string
	// writes are all versions of rows that it may leave.
	writes []row
	// check says whether after is what it may have made of before. begun is when
	// it began.
	check func(before, after state, begun time.Time) error
}

// exactly is the check of a statement that does one thing only.
func exactly(change func(before state) state) func(before, after state, _ time.Time) error {
	return func(before, after state, _ time.Time) error {
		if want := change(before); !want.equal(after) {
			return fmt.Errorf("the statement did something else: %s", want.difference(after))
		}
		return nil
	}
}

// randomStatement returns a statement that fits the worker's rows as the
// transaction sees them.
func (w *worker) randomStatement(cur state) statement {
	kinds := []func(cur state) statement{
		w.insert, w.insert, w.insertIgnore, w.update, w.update, w.update, w.updateID, w.updateMany,
		w.remove, w.replaceInto, w.upsert, w.handOn, w.updateFar,
	}
	return kinds[w.rng.IntN(len(kinds))](cur)
}

func (w *worker) hotID() int64 { return w.low + int64(w.rng.IntN(hotIDs)) }

// freeID returns an id that may be inserted: one without a row or, where that is
// an error and nothing worse, any.
func (w *worker) freeID(cur state) int64 {
	for {
		id := w.hotID()
		if _, taken := cur[id]; !taken || w.t.uniqueID || len(cur) >= hotIDs {
			return id
		}
	}
}

// existing returns one of the worker's hot rows, or false if it has none.
func (w *worker) existing(cur state) (row, bool) {
	for range 20 {
		if r, ok := cur[w.hotID()]; ok {
			return r, true
		}
	}
	return row{}, false
}

// ownN returns a value for n that only rows of this worker ever have.
func (w *worker) ownN() string {
	switch w.rng.IntN(6) {
	case 0:
		return null
	case 1:
		return strconv.FormatInt(1<<40+w.rng.Int64N(1<<40)*workers+int64(w.number), 10)
	}
	return strconv.Itoa(1000 + w.rng.IntN(80)*workers + w.number)
}

// anyN returns a value for n that may be in another worker's rows, too.
func (w *worker) anyN() string {
	if oneIn(w.rng, 4) {
		return strconv.Itoa(w.rng.IntN(100))
	}
	return w.ownN()
}

func (w *worker) insert(cur state) statement {
	if len(cur) >= hotIDs && !w.t.uniqueID {
		return w.remove(cur)
	}
	rows := []row{w.t.newRow(w.rng, w.freeID(cur), w.anyN())}
	for range w.rng.IntN(3) {
		r := w.t.newRow(w.rng, w.hotID(), w.anyN())
		if _, taken := cur[r.id]; !taken && r.id != rows[0].id && r.id != rows[len(rows)-1].id {
			rows = append(rows, r)
		}
	}
	return statement{
		sql:    w.insertSQL("INSERT INTO", rows),
		writes: rows,
		check:  exactly(func(before state) state { return before.with(rows...) }),
	}
}

func (w *worker) insertSQL(verb string, rows []row) string {
	tuples := make([]string, len(rows))
	for i, r := range rows {
		tuples[i] = w.t.tuple(r)
	}
	return fmt.Sprintf("%s %s (%s) VALUES %s", verb, w.t.name, w.t.columnList(), strings.Join(tuples, ", "))
}

func (w *worker) insertIgnore(cur state) statement {
	var rows []row
	seen := map[int64]bool{}
	for range 1 + w.rng.IntN(4) {
		r := w.t.newRow(w.rng, w.hotID(), w.anyN())
		if _, taken := cur[r.id]; seen[r.id] || taken && !w.t.uniqueID {
			continue
		}
		seen[r.id] = true
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return w.update(cur)
	}
	return statement{
		sql:    w.insertSQL("INSERT IGNORE INTO", rows),
		writes: rows,
		check: func(before, after state, begun time.Time) error {
			want := maps.Clone(before)
			for _, r := range rows {
				if _, taken := before[r.id]; taken {
					continue
				}
				if _, inserted := after[r.id]; inserted {
					want[r.id] = r
				} else if !w.holders.collides(r, begun) {
					return fmt.Errorf("row %s was ignored without a reason", r)
				}
			}
			if !want.equal(after) {
				return fmt.Errorf("INSERT IGNORE did something else: %s", want.difference(after))
			}
			return nil
		},
	}
}

// set returns an UPDATE that makes a row another one with the same id.
func (w *worker) set(old, now row) statement {
	var sets []string
	for i, c := range w.t.columns {
		if old.values[i] != now.values[i] {
			sets = append(sets, c.name+" = "+c.literal(now.values[i]))
		}
	}
	if len(sets) == 0 {
		sets = append(sets, "k = k")
	}
	return statement{
		sql:    fmt.Sprintf("UPDATE %s SET %s WHERE id = %d", w.t.name, strings.Join(sets, ", "), old.id),
		writes: []row{now},
		check:  exactly(func(before state) state { return before.with(now) }),
	}
}

func (w *worker) update(cur state) statement {
	old, ok := w.existing(cur)
	if !ok {
		return w.insert(cur)
	}
	now := w.t.newRow(w.rng, old.id, w.anyN())
	for i := range now.values {
		if w.rng.IntN(2) == 0 {
			now.values[i] = old.values[i]
		}
	}
	return w.set(old, now)
}

// handOn moves the value of n from one row to another.
func (w *worker) handOn(cur state) statement {
	a, ok := w.existing(cur)
	b, also := w.existing(cur)
	if !ok || !also || a.id == b.id {
		return w.update(cur)
	}
	from, to := a.with(colN, null), b.with(colN, a.values[colN])
	order := []row{from, to}
	sql := fmt.Sprintf("UPDATE %s SET n = CASE WHEN id = %d THEN NULL ELSE %s END WHERE id IN (%d, %d)",
		w.t.name, a.id, a.values[colN], a.id, b.id)
	return statement{
		sql:    sql,
		writes: order,
		check:  exactly(func(before state) state { return before.with(order...) }),
	}
}

func (w *worker) updateID(cur state) statement {
	old, ok := w.existing(cur)
	if !ok {
		return w.insert(cur)
	}
	now := old
	now.id = w.freeID(cur)
	if _, taken := cur[now.id]; taken && !w.t.uniqueID {
		return w.update(cur)
	}
	return statement{
		sql:    fmt.Sprintf("UPDATE %s SET id = %d WHERE id = %d", w.t.name, now.id, old.id),
		writes: []row{now},
		check: exactly(func(before state) state {
			after := before.with(now)
			if now.id != old.id {
				delete(after, old.id)
			}
			return after
		}),
	}
}

// updateMany changes all rows in a range of ids.
func (w *worker) updateMany(cur state) statement {
	from := w.hotID()
	to := from + int64(w.rng.IntN(15))
	word := pick(w.rng, words...)
	col := 2 // s
	var changed []row
	for id, r := range cur {
		if id >= from && id <= to && id < w.low+hotIDs {
			changed = append(changed, r.with(col, word))
		}
	}
	return statement{
		sql: fmt.Sprintf("UPDATE %s SET s = %s WHERE id BETWEEN %d AND %d",
			w.t.name, w.t.columns[col].literal(word), from, min(to, w.low+hotIDs-1)),
		writes: changed,
		check:  exactly(func(before state) state { return before.with(changed...) }),
	}
}

// updateFar changes a row that is seldom changed.
func (w *worker) updateFar(cur state) statement {
	if w.t.ballast == 0 {
		return w.update(cur)
	}
	old, there := w.rows[w.low+hotIDs+int64(w.rng.IntN(w.t.ballast))]
	if w.far[old.id] {
		old, there = cur[old.id]
	}
	if !there {
		return w.update(cur)
	}
	w.far[old.id] = true
	cur[old.id] = old
	now := w.t.newRow(w.rng, old.id, w.ownN())
	return w.set(old, now)
}

func (w *worker) remove(cur state) statement {
	id := w.hotID()
	return statement{
		sql: fmt.Sprintf("DELETE FROM %s WHERE id = %d", w.t.name, id),
		check: exactly(func(before state) state {
			after := maps.Clone(before)
			delete(after, id)
			return after
		}),
	}
}

// sameN returns the rows that have r's value of n, but for r's id.
func sameN(s state, r row) []row {
	var out []row
	for id, other := range s {
		if id != r.id && r.values[colN] != null && other.values[colN] == r.values[colN] {
			out = append(out, other)
		}
	}
	return out
}

// aloof returns the row with a value of n that no row has which is seldom changed
// and that the transaction, with the rows cur, does not know of.
func (w *worker) aloof(cur state, r row) row {
	for id, far := range w.rows {
		if _, known := cur[id]; !known && id >= w.low+hotIDs && far.values[colN] == r.values[colN] {
			return r.with(colN, null)
		}
	}
	return r
}

// replaceInto deletes the row with the id, and rows with the same values in
// unique indexes that there may be.
func (w *worker) replaceInto(cur state) statement {
	if len(cur) >= hotIDs && !w.t.uniqueID {
		return w.remove(cur)
	}
	r := w.aloof(cur, w.t.newRow(w.rng, w.freeID(cur), w.ownN()))
	return statement{
		sql:    w.insertSQL("REPLACE INTO", []row{r}),
		writes: []row{r},
		check: func(before, after state, _ time.Time) error {
			want := before.with(r)
			for _, other := range sameN(before, r) {
				if _, there := after[other.id]; !there {
					delete(want, other.id)
				}
			}
			if !want.equal(after) {
				return fmt.Errorf("REPLACE did something else: %s", want.difference(after))
			}
			return nil
		},
	}
}

// upsert inserts a row, or sets k of the row that is in the way.
func (w *worker) upsert(cur state) statement {
	if len(cur) >= hotIDs && !w.t.uniqueID {
		return w.remove(cur)
	}
	r := w.aloof(cur, w.t.newRow(w.rng, w.freeID(cur), w.ownN()))
	k := w.t.columns[colK].value(w.rng)
	writes := []row{r}
	for _, other := range append(sameN(cur, r), cur[r.id]) {
		if other.values != nil {
			writes = append(writes, other.with(colK, k))
		}
	}
	return statement{
		sql:    w.insertSQL("INSERT INTO", []row{r}) + " ON DUPLICATE KEY UPDATE k = " + k,
		writes: writes,
		check: func(before, after state, _ time.Time) error {
			if _, taken := before[r.id]; !taken && before.with(r).equal(after) {
				return nil
			}
			for _, changed := range writes[1:] {
				if before.with(changed).equal(after) {
					return nil
				}
			}
			return fmt.Errorf("upsert did something else: %s", before.with(r).difference(after))
		},
	}
}
