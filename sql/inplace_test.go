package sql_test

import (
	"context"
	"testing"

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
		"replace": "REPLACE INTO t VALUES (100, 7, 'other'), (1, 7000, 'c1')",
	} {
		t.Run(name, func(t *testing.T) {
			c := c.of(t)
			table(c, 10)
			writer, upsert := e.client().of(t), e.client().of(t)
			var met []string
			e.setHook(func(_ context.Context, p ddl.HookPoint) error {
				switch {
				case matches(p, hooks[beforeImport]):
					writer.run(move)
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
