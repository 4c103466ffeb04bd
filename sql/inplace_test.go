package sql_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
)

// What a statement has handed from one row to another while a unique index was built is not found at the former: INSERT ... ON
// DUPLICATE KEY UPDATE does not change a row that has another value.
func TestUpsertLeavesRowsOfOtherValuesAlone(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for name, move := range map[string]string{
		"two statements": "BEGIN PESSIMISTIC; INSERT INTO t VALUES (100, 7, 'other'); UPDATE t SET b = 7000 WHERE a = 1; COMMIT",
		"prepared":       `SET @x = 'other'; PREPARE p FROM "REPLACE INTO t VALUES (100, 7, ?), (1, 7000, 'c1')"; EXECUTE p USING @x`,
		"upsert":         "INSERT INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1') ON DUPLICATE KEY UPDATE b = VALUES(b)",
		"explained":      "EXPLAIN ANALYZE REPLACE INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')",
		"traced":         "TRACE REPLACE INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')",
		"hinted":         "REPLACE /*+ SET_VAR(tidb_constraint_check_in_place = ON) */ INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')",
		"after a hint": "SELECT /*+ SET_VAR(tidb_constraint_check_in_place = ON) */ 1;" +
			"REPLACE INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')",
		"hinted off":  "REPLACE /*+ SET_VAR(tidb_constraint_check_in_place = OFF) */ INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')",
		"select hint": "REPLACE INTO t SELECT /*+ SET_VAR(tidb_constraint_check_in_place = OFF) */ * FROM s ORDER BY a DESC",
		"prepared with a hint": `PREPARE p FROM "REPLACE /*+ SET_VAR(tidb_constraint_check_in_place = OFF) */ INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')";` +
			"EXECUTE p",
		"bound": "CREATE SESSION BINDING FOR REPLACE INTO t SELECT * FROM s ORDER BY a DESC USING" +
			" REPLACE INTO t SELECT /*+ SET_VAR(tidb_constraint_check_in_place = OFF) */ * FROM s ORDER BY a DESC\n" +
			"REPLACE INTO t SELECT * FROM s ORDER BY a DESC",
		"bulk":         "SET tidb_dml_type = 'bulk'; REPLACE INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')",
		"bulk by hint": "REPLACE /*+ SET_VAR(tidb_dml_type = 'bulk') */ INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')",
		"commits by hint": "SET autocommit = 0, tidb_txn_mode = 'optimistic';" +
			"REPLACE /*+ SET_VAR(autocommit = ON) */ INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1'); COMMIT",
		"replace": "REPLACE INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')",
	} {
		t.Run(name, func(t *testing.T) {
			c := c.of(t)
			table(c, 10)
			c.run("DROP TABLE IF EXISTS s; CREATE TABLE s (a INT PRIMARY KEY, b INT, c VARCHAR(40))")
			c.run("INSERT INTO s VALUES (1, 7000, 'c1'), (100, 7, 'other')")
			writer, upsert := e.client().of(t), e.client().of(t)
			var met []string
			e.setHook(func(_ context.Context, p ddl.HookPoint) error {
				switch {
				case matches(p, hooks[beforeImport]):
					for text := range strings.SplitSeq(move, "\n") { // a binding is made by a text of its own
						writer.run(text)
					}
					require.Equal(t, "0", writer.one("SELECT @@tidb_constraint_check_in_place"))
				case matches(p, hooks[afterImport]):
					_, err := upsert.try("INSERT INTO t VALUES (200, 7, 'new') ON DUPLICATE KEY UPDATE c = 'updated'")
					require.NoError(t, err)
					met = upsert.run("SELECT * FROM t WHERE a IN (1, 100) ORDER BY a")
					upsert.run("DELETE FROM t WHERE a = 200")
				}
				return nil
			})
			c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
			e.setHook(nil)
			require.Len(t, met, 2)
			require.Equal(t, "1 7000 c1", met[0])
			require.Equal(t, "100", c.one("SELECT a FROM t USE INDEX (u) WHERE b = 7"))
			c.check("t")
		})
	}
}

// A REPLACE of a transaction that has read a value before the import and locks it after, because it waited for another lock meanwhile, is refused by the value
// that another row has, although REPLACE would remove that row. If what it waited for was written it begins again, and has removed it.
func TestReplaceThatWaitsOverTheImport(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for _, test := range []struct {
		end  string
		code int
	}{{"ROLLBACK", 1062}, {"COMMIT", 0}} {
		t.Run(test.end, func(t *testing.T) {
			c := c.of(t)
			table(c, 10)
			c.run("ALTER TABLE t ADD UNIQUE INDEX v (c)") // whose keys are locked before those of u
			blocker, writer := e.client().of(t), e.client().of(t)
			result := make(chan error, 1)
			begun := false
			e.setHook(func(_ context.Context, p ddl.HookPoint) error {
				switch {
				case matches(p, hooks[beforeImport]) && !begun: // it is met again if another snapshot is taken
					begun = true
					blocker.run("BEGIN PESSIMISTIC; INSERT INTO t VALUES (100, 9000, 'other')")
					go func() {
						_, err := writer.try("BEGIN PESSIMISTIC; REPLACE INTO t VALUES (101, 7, 'other')")
						writer.run("COMMIT")
						result <- err
					}()
					require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM information_schema.data_lock_waits") == "1" },
						hangTimeout, 5*time.Millisecond)
				case matches(p, hooks[afterImport]):
					blocker.run(test.end)
				}
				return nil
			})
			alter := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
			require.NoError(t, wait(t, alter))
			e.setHook(nil)
			err := wait(t, result)
			if test.code == 0 {
				require.NoError(t, err)
				require.Equal(t, "101", c.one("SELECT a FROM t USE INDEX (u) WHERE b = 7"))
			} else {
				require.Equal(t, test.code, errorCode(err))
				require.Equal(t, "1", c.one("SELECT a FROM t USE INDEX (u) WHERE b = 7"))
			}
			c.check("t")
		})
	}
}
