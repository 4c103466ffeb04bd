package sql_test

import "testing"

// A duplicate that the rows have at S and not any more when the index is compared with
// them does not fail the job: the rows may have changed since S (docs/correctness.md,
// I6, step 1).
func TestUniqueDuplicatesGoneSinceS(t *testing.T) {
	insert := func(at place) act { return inTxn(at, "INSERT INTO t (a, b) VALUES ('100', [=1])") }
	remove := func(at place) act { return inTxn(at, "DELETE FROM t WHERE a = '100'") }
	cases := []uniqueCase{
		{name: "before S, gone after S", acts: []act{insert(beforeS), remove(afterS)}},
		{name: "before S, gone before the import", acts: []act{insert(beforeS), remove(beforeImport)}},
		{name: "in delete-only, gone before the import", acts: []act{insert(inDeleteOnly), remove(beforeImport)}},
		{name: "before S, other row gone before the import", acts: []act{insert(beforeS), inTxn(beforeImport, "DELETE FROM t WHERE a = '1'")}},
		{name: "swap by two statements around S", acts: []act{
			inTxn(beforeS, "UPDATE t SET b = [2] WHERE a = '1'"), inTxn(afterS, "UPDATE t SET b = [1] WHERE a = '2'")},
		},
	}
	grounds(t, func(t *testing.T, g *ground) {
		g.matrix(t, mainModes, func(mode) []uniqueCase { return cases })
	})
}
