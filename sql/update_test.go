package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A column's collation says which texts are equal, not which are the same.
func TestUpdateToAnEqualText(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key, s varchar(10) collate utf8mb4_general_ci, b char(5) collate utf8mb4_0900_ai_ci, x text, key (s))")
	c.exec("insert into t values (1, 'a', 'é', 'x'), (2, 'b', null, null)")
	r := c.exec("update t set s = 'A', b = 'E', x = 'X' where s = 'a'")
	n, err := r.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, [][]string{{"1", "A", "E", "X"}}, c.query("select * from t where s = 'a'"))
	r = c.exec("update t set s = 'A', b = b, x = x where id in (1, 2) and s = 'A'")
	n, err = r.RowsAffected()
	require.NoError(t, err)
	require.Zero(t, n, "what is the same is no change")
	c.exec("update t set b = 'e' where id = 1")
	require.Equal(t, []string{"e"}, c.queryFlat("select b from t where id = 1"), "found by its key")
	c.exec("update t set s = 'A ' where id = 1")
	require.Equal(t, []string{"A "}, c.queryFlat("select s from t where id = 1"))
	c.exec("insert into t values (1, 'z', 'z', 'z') on duplicate key update s = 'a '")
	require.Equal(t, []string{"a "}, c.queryFlat("select s from t where id = 1"))
	c.exec("admin check table t")
}
