package sql_test

import (
	"slices"
	"testing"

	"fastddl/internal/randtest"
)

// opened is what a transaction does before the import that ends only while the job
// waits for it.
func opened(statements ...string) act {
	return do(beforeImport, append([]string{"BEGIN"}, statements...)...)
}

// closing ends it.
func closing(statements ...string) act { return do(whileDraining, statements...) }

// openLegal are transactions over the import that leave no duplicates. In those that
// lock the store has a lock, and maybe a LOCK record with the knowledge that the key did
// not exist, of a key that is imported meanwhile.
var openLegal = []uniqueCase{
	{name: "insertion rolled back", acts: []act{opened(insert(100, "[1]")), closing("ROLLBACK")}},
	{name: "transient duplicate", refusedLazily: true, acts: []act{opened(insert(100, "[1]"), remove(100)), closing("COMMIT")}},
	{name: "transient duplicate, taken back later", refusedLazily: true, acts: []act{
		opened(insert(100, "[=1]")), closing(remove(100), "COMMIT")},
	},
	{name: "insertion rolled back to a savepoint", acts: []act{
		opened("SAVEPOINT s", insert(100, "[1]"), "ROLLBACK TO s", update(2, "[20]")), closing("COMMIT")},
	},
	{name: "insertion rolled back to a savepoint later", acts: []act{
		opened(update(2, "[20]"), "SAVEPOINT s", insert(100, "[1]")), closing("ROLLBACK TO s", "COMMIT")},
	},
	{name: "update rolled back to a savepoint", acts: []act{
		opened("SAVEPOINT s", update(2, "[1]"), "ROLLBACK TO s", insert(100, "[20]")), closing("COMMIT")},
	},
	{name: "free value, rolled back to a savepoint", acts: []act{
		opened("SAVEPOINT s", insert(100, "[20]"), "ROLLBACK TO s", update(2, "[21]")), closing("COMMIT")},
	},
	{name: "hand-over, put first", refusedLazily: true, acts: []act{opened(insert(100, "[1]"), remove(1)), closing("COMMIT")}},
	{name: "hand-over, put first, deletion later", refusedLazily: true, acts: []act{opened(insert(100, "[1]")), closing(remove(1), "COMMIT")}},
	{name: "hand-over, deletion first", acts: []act{opened(remove(1), insert(100, "[1]")), closing("COMMIT")}},
	{name: "hand-over, deletion before the import", acts: []act{
		opened(remove(1)), closing(insert(100, "[1]"), "COMMIT")},
	},
	{name: "swap", acts: []act{
		opened("UPDATE t SET b = CASE WHEN a = '1' THEN [2] ELSE [1] END WHERE a IN ('1', '2')"), closing("COMMIT")},
	},
	{name: "swap over NULL, half of it later", acts: []act{
		opened(update(1, "NULL")), closing(update(2, "[1]"), update(1, "[2]"), "COMMIT")},
	},
	{name: "deleted and inserted again", acts: []act{opened(remove(1), insert(1, "[1]")), closing("COMMIT")}},
	{name: "deleted, inserted again later", acts: []act{opened(remove(1)), closing(insert(1, "[=1]"), "COMMIT")}},
	{name: "key changed", acts: []act{opened("UPDATE t SET a = '100' WHERE a = '1'"), closing("COMMIT")}},
	{name: "key changed and changed back later",
		acts: []act{opened("UPDATE t SET a = '100' WHERE a = '1'"), closing("UPDATE t SET a = '1' WHERE a = '100'", "COMMIT")}},
	{name: "key changed later", acts: []act{opened(update(1, "[=1]")), closing("UPDATE t SET a = '100' WHERE a = '1'", "COMMIT")}},
	{name: "row locked only", acts: []act{opened("SELECT * FROM t WHERE a = '1' FOR UPDATE"), closing("COMMIT")}},
	{name: "REPLACE", refusedLazily: true, acts: []act{opened("REPLACE INTO t (a, b) VALUES ('100', [1])", remove(1)), closing("COMMIT")}},
	{name: "IGNORE, other row deleted", acts: []act{opened("INSERT IGNORE INTO t (a, b) VALUES ('100', [1])"), closing(remove(1), "COMMIT")}},
	{name: "ON DUPLICATE KEY, other row deleted", refusedLazily: true, acts: []act{
		opened("INSERT INTO t (a, b) VALUES ('100', [1]) ON DUPLICATE KEY UPDATE b = [20]"), closing(remove(1), "COMMIT")},
	},
}

// refusedForItsKey is a statement that fails, and whose locks stay until its
// transaction ends.
var refusedForItsKey = uniqueCase{name: "statement that fails", needsKey: true, acts: []act{
	opened(update(3, "[20]"), "INSERT INTO t (a, b) VALUES ('100', [1]), ('2', [21])").fails(1062), closing("COMMIT"),
}}

// openDuplicates are transactions over the import that end with a duplicate which no
// check has refused.
var openDuplicates = []uniqueCase{
	{name: "insertion", refusedLazily: true, duplicates: one, acts: []act{opened(insert(100, "[=1]")), closing("COMMIT")}},
	{name: "update", duplicates: one, acts: []act{opened(update(2, "[=1]")), closing("COMMIT")}},
	{name: "REPLACE, a duplicate", refusedLazily: true, duplicates: one,
		acts: []act{opened("REPLACE INTO t (a, b) VALUES ('100', [1])"), closing("COMMIT")}},
	{name: "IGNORE, a duplicate", duplicates: one, acts: []act{opened("INSERT IGNORE INTO t (a, b) VALUES ('100', [1])"), closing("COMMIT")}},
	{name: "ON DUPLICATE KEY, a duplicate", refusedLazily: true, duplicates: one, acts: []act{
		opened("INSERT INTO t (a, b) VALUES ('100', [1]) ON DUPLICATE KEY UPDATE b = [20]"), closing("COMMIT")},
	},
	{name: "two transactions", duplicates: []duplicate{{1, 2}, {2, 2}}, acts: []act{
		opened(update(3, "[1]")), opened(update(4, "[2]")).as(1), closing("COMMIT"), closing("COMMIT").as(1)},
	},
	{name: "one commits, one rolls back", duplicates: []duplicate{{2, 2}}, acts: []act{
		opened(update(3, "[1]")), opened(update(4, "[2]")).as(1), closing("ROLLBACK"), closing("COMMIT").as(1)},
	},
}

// openCases are the cases as they go in a mode. An optimistic transaction that does
// not check in place does so when it is committed, and finds what was imported: it is
// refused, regardless of what it has done since, as it would be by a public index.
func openCases(m mode) (cases []uniqueCase) {
	lazy := !m.pessimistic() && m.name != optimisticEager.name
	for _, c := range slices.Concat(openLegal, openDuplicates) {
		if lazy && c.refusedLazily {
			c.duplicates, c.acts = nil, slices.Clone(c.acts)
			last := &c.acts[len(c.acts)-1]
			*last = last.fails(1062)
		}
		cases = append(cases, c)
	}
	if m.pessimistic() {
		cases = append(cases, refusedForItsKey)
	}
	return cases
}

// Keys are imported while transactions that have written or locked them, or looked
// for them, are open.
func TestUniqueTransactionsOverTheImport(t *testing.T) {
	randtest.SkipShort(t)
	grounds(t, func(t *testing.T, g *ground) {
		g.matrix(t, txnModes, func(m mode) []uniqueCase {
			switch {
			case g.name == "unistore" && m.pessimistic():
				return nil // an import cannot pass the locks there
			case m.name == pessimisticLazy.name:
				return nil // see TestUniqueChecksAtTheEnd
			}
			return openCases(m)
		})
	})
}

// A pessimistic transaction that leaves its checks to the end does not lock what it
// inserts, and is checked when it is committed.
func TestUniqueChecksAtTheEnd(t *testing.T) {
	randtest.SkipShort(t)
	cases := []uniqueCase{
		{name: "insertion", acts: []act{opened(insert(100, "[=1]")), closing("COMMIT").fails(1062)}},
		{name: "update", acts: []act{opened(update(2, "[=1]")), closing("COMMIT").fails(1062)}},
		{name: "IGNORE", duplicates: one, acts: []act{opened("INSERT IGNORE INTO t (a, b) VALUES ('100', [1])"), closing("COMMIT")}},
		{name: "hand-over, deletion first", acts: []act{opened(remove(1), insert(100, "[1]")), closing("COMMIT")}},
		{name: "free value", acts: []act{opened(insert(100, "[20]")), closing("COMMIT")}},
		{name: "free value that somebody takes", acts: []act{
			opened(insert(100, "[20]")), do(afterImport, insert(101, "[20]")).as(1), closing("COMMIT").fails(9007)},
		},
		{name: "key changed", acts: []act{opened("UPDATE t SET a = '100' WHERE a = '1'"), closing("COMMIT")}},
		{name: "rolled back", acts: []act{opened(insert(100, "[1]")), closing("ROLLBACK")}},
	}
	g := &ground{env: newEnv(t), name: "embedded"}
	g.connect()
	g.matrix(t, []mode{pessimisticLazy}, func(mode) []uniqueCase { return cases })
}
