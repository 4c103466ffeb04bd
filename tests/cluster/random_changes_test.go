package cluster

import (
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// randomTable is a table (id, u, a, s, d, e, k).
type randomTable struct {
	name, definition string
	split            string // where its records are split, if their keys have values of columns
	partitioned      bool
	ballast          int // rows that no client changes; their ids are below idStride
}

func newRandomTable(rng *rand.Rand, name string, partitioned bool) *randomTable {
	t := &randomTable{name: name, partitioned: partitioned, ballast: pick(rng, 0, 300, 2000, 4000)}
	collation := pick(rng, "utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci")
	t.definition = fmt.Sprintf("id BIGINT NOT NULL, u BIGINT, a INT NOT NULL, s VARCHAR(24) COLLATE %s NOT NULL, d INT NOT NULL, e INT, "+
		"k VARCHAR(8) COLLATE %[1]s NOT NULL DEFAULT 'Kk ', PRIMARY KEY (id", collation)
	switch key := pick(rng, "", "", ", k", ", k(1)", "nonclustered"); key {
	case "":
		t.definition += ") CLUSTERED"
		t.split = "(0) AND (8000)"
	case "nonclustered":
		t.definition += ") NONCLUSTERED"
	default: // handles of several columns
		t.definition += key + ") CLUSTERED"
		t.split = "(0, '') AND (8000, '')"
	}
	return t
}

func (t *randomTable) create() string {
	statement := fmt.Sprintf("CREATE TABLE %s (%s)", t.name, t.definition)
	if t.partitioned {
		statement += " PARTITION BY HASH (id) PARTITIONS 3"
	}
	return statement
}

// rest is the rows that no client changes. The first two have the same e, all others have none:
// so there are duplicates, and nothing that is written is one.
func (t *randomTable) rest() state {
	rows := state{1: {id: 1, a: 1, s: "same", d: 1}, 2: {id: 2, a: 2, s: "same", d: 1}}
	for i := range int64(t.ballast) {
		id := 10 + i
		r := row{id: id, a: id % 100, s: fmt.Sprint("s", id%1000), d: id % 7}
		if i%5 != 0 {
			r.u = sql.NullInt64{Int64: id, Valid: true}
		}
		rows[id] = r
	}
	return rows
}

// fill makes the table, in several regions, with the rows that no client changes.
func (t *randomTable) fill(db *sql.DB) error {
	rest := t.rest()
	var tuples []string
	for _, id := range slices.Sorted(maps.Keys(rest)) {
		tuples = append(tuples, rest[id].tuple())
	}
	statements := []string{t.create()}
	for batch := range slices.Chunk(tuples, 1000) {
		statements = append(statements, fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", t.name, rowColumns, strings.Join(batch, ", ")))
	}
	statements = append(statements, fmt.Sprintf("UPDATE %s SET e = 7 WHERE id IN (1, 2)", t.name))
	if t.split != "" {
		statements = append(statements, fmt.Sprintf("SPLIT TABLE %s BETWEEN %s REGIONS 4", t.name, t.split))
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			return fmt.Errorf("%.100s: %w", s, err)
		}
	}
	return nil
}

// randomIndex is an index as ALTER TABLE adds it. One that is unique can be built, if
// duplicates is not set.
func (t *randomTable) randomIndex(rng *rand.Rand, name string, duplicates bool) string {
	switch {
	case duplicates && t.partitioned:
		return fmt.Sprintf("ADD UNIQUE INDEX %s (e) GLOBAL", name)
	case duplicates:
		return fmt.Sprintf("ADD UNIQUE INDEX %s (e)", name)
	case oneIn(rng, 2) && t.partitioned:
		return fmt.Sprintf("ADD UNIQUE INDEX %s %s", name, pick(rng, "(u, id)", "(id, u)", "(u) GLOBAL"))
	case oneIn(rng, 2) && !t.partitioned:
		return fmt.Sprintf("ADD UNIQUE INDEX %s %s", name, pick(rng, "(u)", "(u)", "(u, a)", "(u DESC)"))
	}
	return fmt.Sprintf("ADD INDEX %s (%s)", name,
		pick(rng, "a", "u", "s", "s(3)", "a, s", "d, a DESC, u", "(a + d)", "(LOWER(s)), u", "s(2), id"))
}

func (w *worker) newRow(id int64) row {
	return row{id: id, a: w.rng.Int64N(50), s: pick(w.rng, "", "a", "A", "ab", "aB ", "abcdef", "Äb", "äB", "日本語", "zzzzzzzzzz"), d: w.rng.Int64N(20)}
}

// freeIDs and freeValues are the ids and the values of u that are the worker's and in no
// row.
func (w *worker) freeIDs(cur state) []int64 {
	var free []int64
	for id := w.low; id < w.low+hotIDs; id++ {
		if _, taken := cur[id]; !taken {
			free = append(free, id)
		}
	}
	return free
}

func (w *worker) freeValues(cur state) []int64 {
	taken := make(map[int64]bool)
	for _, r := range cur {
		taken[r.u.Int64] = true
	}
	var free []int64
	for u := w.low; u < w.low+hotIDs; u++ {
		if !taken[u] {
			free = append(free, u)
		}
	}
	return free
}

// change returns statements of a random change, which none of the rows' values forbids at
// any moment, and makes cur what the rows are after them.
func (w *worker) change(cur state) []string {
	ids := slices.Sorted(maps.Keys(cur))
	if len(ids) < 4 || len(ids) < hotIDs-5 && oneIn(w.rng, 4) {
		return w.insert(cur)
	}
	w.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	switch w.rng.IntN(6) {
	case 0:
		return w.update(cur, ids[0])
	case 1:
		return w.delete(cur, ids[:1+w.rng.IntN(3)])
	case 2:
		return w.handOver(cur, ids[0], ids[1])
	case 3:
		return w.swap(cur, ids[0], ids[1])
	case 4:
		return w.replace(cur, ids[0])
	}
	return w.move(cur, ids[0])
}

func (w *worker) insert(cur state) []string {
	ids, values := w.freeIDs(cur), w.freeValues(cur)
	var tuples []string
	for i, id := range ids[:min(len(ids), 1+w.rng.IntN(4))] {
		r := w.newRow(id)
		if i < len(values) && !oneIn(w.rng, 4) {
			r.u = sql.NullInt64{Int64: values[i], Valid: true}
		}
		cur[id] = r
		tuples = append(tuples, r.tuple())
	}
	return []string{fmt.Sprintf("%s INTO %s (%s) VALUES %s", pick(w.rng, "INSERT", "INSERT", "INSERT IGNORE", "REPLACE"), w.t.name, rowColumns,
		strings.Join(tuples, ", "))}
}

// update changes columns that are in indexes, of one row or of those that follow it.
func (w *worker) update(cur state, id int64) []string {
	r := w.newRow(id)
	if oneIn(w.rng, 2) {
		old := cur[id]
		old.s, old.d = r.s, r.d
		cur[id] = old
		return []string{fmt.Sprintf("UPDATE %s SET s = '%s', d = %d WHERE id = %d", w.t.name, r.s, r.d, id)}
	}
	for other, old := range cur {
		if other >= id && other < id+5 {
			old.a++
			cur[other] = old
		}
	}
	return []string{fmt.Sprintf("UPDATE %s SET a = a + 1 WHERE id >= %d AND id < %d", w.t.name, id, min(id+5, w.low+hotIDs))}
}

func (w *worker) delete(cur state, ids []int64) []string {
	var list []string
	for _, id := range ids {
		delete(cur, id)
		list = append(list, fmt.Sprint(id))
	}
	return []string{fmt.Sprintf("DELETE FROM %s WHERE id IN (%s)", w.t.name, strings.Join(list, ", "))}
}

// handOver gives the u of a row to another one: the first loses it, or is deleted.
func (w *worker) handOver(cur state, from, to int64) []string {
	giver, taker := cur[from], cur[to]
	taker.u = giver.u
	cur[to] = taker
	take := fmt.Sprintf("UPDATE %s SET u = %s WHERE id = %d", w.t.name, uText(giver.u), to)
	if oneIn(w.rng, 2) {
		delete(cur, from)
		return []string{fmt.Sprintf("DELETE FROM %s WHERE id = %d", w.t.name, from), take}
	}
	giver.u = sql.NullInt64{}
	cur[from] = giver
	return []string{fmt.Sprintf("UPDATE %s SET u = NULL WHERE id = %d", w.t.name, from), take}
}

// swap has two rows change their u.
func (w *worker) swap(cur state, one, two int64) []string {
	a, b := cur[one], cur[two]
	a.u, b.u = b.u, a.u
	cur[one], cur[two] = a, b
	set := func(u sql.NullInt64, id int64) string {
		return fmt.Sprintf("UPDATE %s SET u = %s WHERE id = %d", w.t.name, uText(u), id)
	}
	between := sql.NullInt64{Int64: -w.low, Valid: oneIn(w.rng, 2)}
	return []string{set(between, one), set(b.u, two), set(a.u, one)}
}

// replace puts another row in the place of one, with the same u or another.
func (w *worker) replace(cur state, id int64) []string {
	r := w.newRow(id)
	r.u = cur[id].u
	if free := w.freeValues(cur); len(free) > 0 && oneIn(w.rng, 2) {
		r.u = sql.NullInt64{Int64: pick(w.rng, free...), Valid: true}
	}
	cur[id] = r
	if oneIn(w.rng, 2) {
		return []string{fmt.Sprintf("REPLACE INTO %s (%s) VALUES %s", w.t.name, rowColumns, r.tuple())}
	}
	return []string{fmt.Sprintf("INSERT INTO %s (%s) VALUES %s ON DUPLICATE KEY UPDATE u = VALUES(u), a = VALUES(a), s = VALUES(s), d = VALUES(d)",
		w.t.name, rowColumns, r.tuple())}
}

// move gives a row another id, which in a partitioned table may be of another partition.
func (w *worker) move(cur state, id int64) []string {
	free := w.freeIDs(cur)
	if len(free) == 0 {
		return w.delete(cur, []int64{id})
	}
	r := cur[id]
	delete(cur, id)
	r.id = pick(w.rng, free...)
	cur[r.id] = r
	return []string{fmt.Sprintf("UPDATE %s SET id = %d WHERE id = %d", w.t.name, r.id, id)}
}

func uText(u sql.NullInt64) string {
	if !u.Valid {
		return "NULL"
	}
	return fmt.Sprint(u.Int64)
}
