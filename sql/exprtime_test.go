package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIndexOnATimeIsNotAskedForTextsOfAnotherForm: a text such as '5.0' or the empty one is a
// time in one comparison and none in the other.
func TestIndexOnATimeIsNotAskedForTextsOfAnotherForm(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table plain (id int primary key, s varchar(20))")
	c.exec("create table indexed (id int primary key, s varchar(20), key k ((cast(s as time))))")
	c.exec("set sql_mode = ''")
	c.exec("insert into plain values (1, '5.0'), (2, ''), (3, '12:30:00'), (4, 'a'), (5, '5'), (6, null), (7, '00:00:05')")
	c.exec("insert into indexed select * from plain")
	for _, where := range []string{
		"cast(s as time) in ('5.0', '')", "cast(s as time) = '5.0'", "cast(s as time) = ''", "cast(s as time) = '5'", "cast(s as time) > '00:00'",
		"cast(s as time) in ('12:30:00', '00:00:05')", "cast(s as time) = '12:30:00'", "cast(s as time) < '12:30:00.5'", "cast(s as time) in ('', '12:30:00')",
	} {
		want, err := c.tryQuery("select id from plain where " + where)
		require.NoError(t, err, where)
		got, err := c.tryQuery("select id from indexed where " + where)
		require.NoError(t, err, where)
		require.ElementsMatch(t, column(want, 0), column(got, 0), where)
	}
	require.Equal(t, "k", explainKey(c, "select * from indexed where cast(s as time) = '12:30:00'")[0][2])
}
