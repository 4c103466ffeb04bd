package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// move is what writers may do to the values of a unique column: at the end no two
// rows have one.
type move struct {
	name       string
	statements []string
	// transient says that two rows have a value for a moment. An index that has both
	// rows' entries refuses that.
	transient bool
	// needsKey says that it works by a's being a key.
	needsKey bool
	// txnOnly says that it is nothing in autocommit, savepoint that it sets one.
	txnOnly, savepoint bool
}

// moves are the legal moves of tidb-online-ddl's parts 1.3, 1.4 and 4.
var moves = []move{
	{name: "transient duplicate", transient: true, statements: []string{insert(100, "[1]"), remove(100)}},
	{name: "transient duplicate in another spelling", transient: true,
		statements: []string{insert(100, "[=1]"), remove(100)}},
	{name: "transient duplicate by update", transient: true, statements: []string{update(2, "[1]"), update(2, "[2]")}},
	{name: "hand-over, put first", transient: true, statements: []string{insert(100, "[1]"), remove(1)}},
	{name: "hand-over, put first, in another spelling", transient: true,
		statements: []string{insert(100, "[=1]"), remove(1)}},
	{name: "hand-over, deletion first", statements: []string{remove(1), insert(100, "[1]")}},
	{name: "hand-over there and back", statements: []string{
		remove(1), insert(100, "[1]"), remove(100), insert(1, "[=1]")},
	},
	{name: "hand-over by updates, put first", transient: true, statements: []string{update(2, "[1]"), update(1, "[20]")}},
	{name: "hand-over by updates", statements: []string{update(1, "[20]"), update(2, "[1]")}},
	{name: "swap in one statement", transient: true,
		statements: []string{"UPDATE t SET b = CASE WHEN a = '1' THEN [2] ELSE [1] END WHERE a IN ('1', '2')"}},
	{name: "rotation in one statement", transient: true,
		statements: []string{"UPDATE t SET b = CASE WHEN a = '1' THEN [2] WHEN a = '2' THEN [3] ELSE [1] END WHERE a IN ('1', '2', '3')"}},
	{name: "swap in two statements", transient: true, statements: []string{update(1, "[2]"), update(2, "[1]")}},
	{name: "swap over a free value", statements: []string{
		update(1, "[20]"), update(2, "[1]"), update(1, "[2]")},
	},
	{name: "swap over NULL", statements: []string{
		update(1, "NULL"), update(2, "[1]"), update(1, "[2]")},
	},
	{name: "NULLs", statements: []string{
		"INSERT INTO t (a, b) VALUES ('100', NULL), ('101', NULL)", "UPDATE t SET b = NULL WHERE a IN ('1', '2')", update(100, "[1]")},
	},
	{name: "deleted and inserted again", statements: []string{remove(1), insert(1, "[1]")}},
	{name: "all deleted", statements: []string{"DELETE FROM t"}},
	{name: "all deleted and inserted otherwise", statements: []string{
		"DELETE FROM t", "INSERT INTO t (a, b) VALUES ('1', [5]), ('2', [4]), ('3', [3]), ('4', [2]), ('5', [1])"},
	},
	{name: "changed and changed back", statements: []string{update(1, "[20]"), update(1, "[1]")}},
	{name: "other spelling", statements: []string{update(1, "[=1]")}},
	{name: "other spelling and back", statements: []string{update(1, "[=1]"), update(1, "[1]")}},
	{name: "key changed", statements: []string{"UPDATE t SET a = '100' WHERE a = '1'"}},
	{name: "key changed and changed back", statements: []string{"UPDATE t SET a = '100' WHERE a = '1'", "UPDATE t SET a = '1' WHERE a = '100'"}},
	{name: "keys exchanged", statements: []string{
		"UPDATE t SET a = '100' WHERE a = '1'", "UPDATE t SET a = '1' WHERE a = '2'", "UPDATE t SET a = '2' WHERE a = '100'"},
	},
	{name: "keys of all rows changed", statements: []string{"UPDATE t SET a = a + 100"}},
	{name: "key and spelling changed", statements: []string{"UPDATE t SET a = '100', b = [=1] WHERE a = '1'"}},
	{name: "key changed, value taken over", statements: []string{
		"UPDATE t SET a = '100', b = [20] WHERE a = '1'", insert(1, "[1]")},
	},

	{name: "IGNORE of a key", needsKey: true, statements: []string{"INSERT IGNORE INTO t (a, b) VALUES ('1', [2])"}},
	{name: "IGNORE of a value, taken back", transient: true, statements: []string{"INSERT IGNORE INTO t (a, b) VALUES ('100', [1])", remove(100)}},
	{name: "UPDATE IGNORE, taken back", transient: true, statements: []string{"UPDATE IGNORE t SET b = [1] WHERE a = '2'", update(2, "[2]")}},
	{name: "REPLACE by a key", needsKey: true,
		statements: []string{"REPLACE INTO t (a, b) VALUES ('1', [20])", "REPLACE INTO t (a, b) VALUES ('2', [1])"}},
	{name: "REPLACE with the same", needsKey: true, statements: []string{"REPLACE INTO t (a, b) VALUES ('1', [1]), ('2', [=2])"}},
	{name: "REPLACE of a value, other row deleted", transient: true, statements: []string{"REPLACE INTO t (a, b) VALUES ('100', [1])", remove(1)}},
	{name: "ON DUPLICATE KEY of a key", needsKey: true, statements: []string{
		"INSERT INTO t (a, b) VALUES ('1', [9]) ON DUPLICATE KEY UPDATE b = [20]", "INSERT INTO t (a, b) VALUES ('2', [9]) ON DUPLICATE KEY UPDATE b = [1]"},
	},
	{name: "ON DUPLICATE KEY of a value, other row deleted", transient: true, statements: []string{
		"INSERT INTO t (a, b) VALUES ('100', [1]) ON DUPLICATE KEY UPDATE a = '101'", remove(1)},
	},
	{name: "ON DUPLICATE KEY changes the key", needsKey: true, statements: []string{
		"INSERT INTO t (a, b) VALUES ('1', [9]) ON DUPLICATE KEY UPDATE a = '100'"},
	},

	{name: "insertion rolled back to a savepoint", txnOnly: true, savepoint: true, transient: true, statements: []string{
		"SAVEPOINT s", insert(100, "[1]"), "ROLLBACK TO s", update(2, "[20]")},
	},
	{name: "deletion rolled back to a savepoint", txnOnly: true, savepoint: true, statements: []string{
		"SAVEPOINT s", remove(1), "ROLLBACK TO s", update(2, "[20]")},
	},
	{name: "hand-over rolled back to a savepoint", txnOnly: true, savepoint: true, statements: []string{
		"SAVEPOINT s", remove(1), insert(100, "[1]"), "ROLLBACK TO s", update(2, "[20]")},
	},
	{name: "second thoughts about a savepoint", txnOnly: true, savepoint: true, statements: []string{
		remove(1), "SAVEPOINT s", insert(100, "[1]"), "ROLLBACK TO s", insert(101, "[1]")},
	},
	{name: "deletion of a duplicate rolled back, then done", txnOnly: true, savepoint: true, transient: true, statements: []string{
		insert(100, "[1]"), "SAVEPOINT s", remove(100), "ROLLBACK TO s", remove(1)},
	},
	{name: "rolled back", txnOnly: true, transient: true, statements: []string{insert(100, "[1]"), remove(2), "ROLLBACK"}},
}

// casesAt returns the moves that can be made at a place.
func casesAt(at place, in mode) (cases []uniqueCase) {
	// From the import on the index has the entries of all rows.
	complete := at == afterImport || at == drained || at == compared || at == published
	for _, m := range moves {
		if m.txnOnly && in.begin == "" || m.savepoint && in.name == pessimisticLazy.name || m.transient && complete {
			continue // TiDB has no savepoints with checks at the end
		}
		cases = append(cases, uniqueCase{name: m.name, needsKey: m.needsKey, acts: []act{inTxn(at, m.statements...)}})
	}
	return cases
}

// Moves that leave no two rows with one value do not fail a job, and the index is
// what the rows say: on every kind of table, with every kind of transaction.
func TestUniqueLegalMoves(t *testing.T) {
	randtest.SkipShort(t)
	grounds(t, func(t *testing.T, g *ground) {
		g.matrix(t, allModes, func(m mode) []uniqueCase { return casesAt(beforeImport, m) })
	})
}

// The same at every other place of a job. The short form plays each move at every fourth
// place where it can be made, in one mode, on the embedded store.
func TestUniqueLegalMovesAtEveryPlace(t *testing.T) {
	randtest.SkipShort(t)
	places := []place{inDeleteOnly, inWriteOnly, beforeS, afterS, afterImport, drained, compared, published}
	chosen, played := make(map[placed]bool), make(map[string]bool)
	for i, at := range places {
		for k, c := range inModes(mainModes, func(m mode) []uniqueCase { return casesAt(at, m) }) {
			if (i+k)%4 == 0 {
				chosen[placed{at, c.modes[(i+k)%len(c.modes)], c.name}], played[c.name] = true, true
			}
		}
	}
	for _, m := range moves {
		require.True(t, played[m.name], "%s is never played", m.name)
	}
	grounds(t, func(t *testing.T, g *ground) {
		if g.name != "embedded" && !inFull() {
			t.Skip("TestUniqueLegalMoves runs on it: this runs with FASTDDL_LONG=1")
		}
		for _, at := range places {
			t.Run(string(at), func(t *testing.T) {
				for _, m := range mainModes {
					t.Run(m.name, func(t *testing.T) {
						for _, c := range casesAt(at, m) {
							if inFull() || chosen[placed{at, m.name, c.name}] {
								t.Run(c.name, func(t *testing.T) { g.play(t, shapes[0], m, c) })
							}
						}
					})
				}
			})
		}
	})
}

// placed is a case at a place in one mode.
type placed struct {
	at         place
	mode, name string
}
