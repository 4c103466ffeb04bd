package sql_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Foreign keys go by an index that stays while the one that they went by is being dropped: TiDB takes the first of the
// table's that serves them, in any state of its.
func TestMixedForeignKeysLeaveTheIndexThatGoes(t *testing.T) {
	e := newEnv(t)
	c, w := e.client(), e.client()
	for _, step := range []string{"drop-delete-only", "drop-delete-reorg", "dropped"} {
		c.run("DROP TABLE IF EXISTS child, parent")
		c.run("CREATE TABLE parent (id INT PRIMARY KEY, u INT, KEY old (u), KEY new (u, id))")
		c.run(`CREATE TABLE child (id INT PRIMARY KEY, a INT, b INT, u INT, KEY old (a), KEY new (a, id), KEY oldb (b), KEY newb (b, id), KEY u (u),
			FOREIGN KEY (a) REFERENCES parent (id), FOREIGN KEY (b) REFERENCES parent (id) ON DELETE CASCADE, FOREIGN KEY (u) REFERENCES parent (u))`)
		c.run("INSERT INTO parent VALUES (1, 10), (2, 20)")
		ran := 0
		run := func(query string) (code int) {
			ran++
			if _, err := w.try(query); err != nil {
				t.Log(query, err)
				return errorCode(err)
			}
			return 0
		}
		e.before("change-schema", step, func() {
			assert.Zero(t, run("INSERT INTO child VALUES (1, 1, NULL, NULL), (2, NULL, 2, NULL)"), step)
			assert.Equal(t, 1451, run("DELETE FROM parent WHERE id = 1"), step)
			assert.Zero(t, run("DELETE FROM parent WHERE id = 2"), step)
		})
		c.run("ALTER TABLE child ADD INDEX x (a, b), DROP INDEX old, DROP INDEX oldb")
		c.check("child")
		require.Equal(t, "1", c.one("SELECT GROUP_CONCAT(id) FROM child"), step)
		e.before("change-schema", step, func() {
			assert.Zero(t, run("INSERT INTO parent VALUES (4, 40)"), step)
			assert.Zero(t, run("INSERT INTO child VALUES (4, NULL, NULL, 40)"), step)
			assert.Equal(t, 1451, run("DELETE FROM parent WHERE id = 4"), step)
		})
		c.run("ALTER TABLE parent ADD INDEX x (id, u), DROP INDEX old")
		c.check("parent")
		require.Equal(t, 6, ran)
	}
}
