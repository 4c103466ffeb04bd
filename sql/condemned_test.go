package sql_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// collect does what TiDB's garbage collection does to ranges, without waiting for readers.
func (e *env) collect(c *client) {
	e.t.Helper()
	for _, row := range c.run("SELECT start_key, end_key FROM mysql.gc_delete_range") {
		start, end, _ := strings.Cut(row, " ")
		from, err := hex.DecodeString(start)
		require.NoError(e.t, err)
		to, err := hex.DecodeString(end)
		require.NoError(e.t, err)
		require.NoError(e.t, e.store.Builds().DeleteRange(e.t.Context(), kv.KeyRange{Start: from, End: to}))
	}
}

// TestIndexOfAnExchangedPartition: EXCHANGE PARTITION swaps the IDs that entries are stored under, and not
// the numbers that the tables count their indexes by. What is still to be deleted of an index of the one
// must not be an index of the other. It is deleted once more after a day.
func TestIndexOfAnExchangedPartition(t *testing.T) {
	e := newEnv(t)
	for name, begin := range map[string][]string{
		"the partition had one": {"ALTER TABLE p ADD INDEX i (b)", "ALTER TABLE p DROP INDEX i"},
		"the partition had two": {"ALTER TABLE p ADD INDEX i (b), ADD INDEX j (a, b)", "ALTER TABLE p DROP INDEX i, DROP INDEX j"},
		"it is to be deleted again": {"ALTER TABLE p ADD INDEX i (b)", "ALTER TABLE p DROP INDEX i",
			"INSERT INTO mysql.gc_delete_range_done SELECT * FROM mysql.gc_delete_range", "DELETE FROM mysql.gc_delete_range"},
		"the table had one": {"ALTER TABLE n ADD INDEX i (b)", "ALTER TABLE n DROP INDEX i"},
	} {
		t.Run(name, func(t *testing.T) {
			c := e.client()
			c.run("DROP DATABASE test")
			c.run("CREATE DATABASE test")
			c.run("USE test")
			c.run("DELETE FROM mysql.gc_delete_range")
			c.run("DELETE FROM mysql.gc_delete_range_done")
			c.run("CREATE TABLE p (a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200))")
			c.run("CREATE TABLE n (a INT PRIMARY KEY, b INT)")
			c.run("INSERT INTO p VALUES (1,1),(2,1),(101,1)")
			c.run("INSERT INTO n VALUES (3,1)")
			for _, query := range begin {
				c.run(query)
			}
			c.run("ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE n")
			c.run("ALTER TABLE n ADD INDEX i (b)")
			c.run("ALTER TABLE p ADD INDEX i (b), ADD UNIQUE INDEX u (b, a)")
			c.run("INSERT INTO mysql.gc_delete_range SELECT * FROM mysql.gc_delete_range_done")
			e.collect(c)
			for _, table := range []string{"n", "p"} {
				c.run("ADMIN CHECK TABLE " + table)
				require.Equal(t, c.run("SELECT * FROM "+table+" IGNORE INDEX (i) ORDER BY a"), c.run("SELECT * FROM "+table+" FORCE INDEX (i) WHERE b = 1 ORDER BY a"))
			}
		})
	}
}
