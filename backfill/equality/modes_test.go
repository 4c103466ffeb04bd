package equality

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/internal/randtest"
)

// code is the number of TiDB's error in err, 0 if there is none.
func code(err error) uint16 {
	var e *terror.Error
	if !errors.As(err, &e) {
		return 0
	}
	return terror.ToSQLError(e).Code
}

// TestSQLModes: what an expression makes of values that do not suit it, an error
// or something else, depends on the SQL mode as it does in TiDB.
func TestSQLModes(t *testing.T) {
	randtest.SkipShort(t)
	db := newTiDB(t)
	for _, tc := range []struct{ column, index, rows string }{
		{"v int as (100 div n)", "index i (v)", "(1, 0, 'a', null), (2, 3, 'b', null)"},
		{"v varchar(2) as (s)", "index i (v)", "(1, 0, 'abc', null)"},
		{"v int as (s)", "index i (v)", "(1, 0, '12', null), (2, 0, '3x', null)"},
		{"v int unsigned as (n)", "index i (v)", "(1, -7, '', null), (2, 7, '', null)"},
		{"v tinyint as (n * 1000)", "index i (v)", "(1, 1, '', null)"},
		{"v date as (s)", "index i (v)", "(1, 0, '2024-02-30', null), (2, 0, '0000-00-00', null), (3, 0, 'no date', null)"},
		{"v year as (n)", "index i (v)", "(1, 70, '', null), (2, 2000, '', null)"},
		{"v int", "index i ((cast(j as signed array)))", `(1, 1, '', '[1, 2]'), (2, 1, '', '["a"]')`},
		{"v int", "index i ((cast(j as unsigned array)))", `(1, 1, '', '[1, -2]')`},
		{"v int", "index i ((cast(j as char(2) array)))", `(1, 1, '', '["a", "long"]')`},
		{"v int", "index i ((cast(j as signed array)))", `(1, 1, '', '{"a": 1}')`},
		{"v int", "index i ((cast(j as signed array)))", `(1, 1, '', '5'), (2, 2, '', '[]'), (3, 2, '', 'null')`},
		{"v int", "index i ((n + 9223372036854775807))", "(1, 1, '', null)"},
		{"v int", "index i ((cast(s as signed)))", "(1, 1, '3x', null)"},
	} {
		for _, mode := range []string{"", mysql.DefaultSQLMode, "ALLOW_INVALID_DATES,STRICT_TRANS_TABLES"} {
			t.Run(fmt.Sprintf("%s, %s, %q", tc.column, tc.index, mode), func(t *testing.T) {
				db.t = t
				db.exec("set sql_mode = ''")
				db.exec("drop table if exists t")
				db.exec("create table t (id int primary key, n bigint, s varchar(20), j json, " + tc.column + ")")
				db.exec("insert ignore into t (id, n, s, j) values " + tc.rows)
				db.exec("set sql_mode = '" + mode + "'")
				_, theirs := db.session.Execute(context.Background(), "alter table t add "+tc.index)
				if theirs != nil { // TiDB has no table with the index now, so we need one
					db.exec("create table if not exists empty (id int)")
					db.exec("drop table empty")
					db.exec("create table empty like t")
					if _, err := db.session.Execute(context.Background(), "alter table empty add "+tc.index); err != nil {
						require.Equal(t, code(theirs), code(err), "refused for any rows")
						return
					}
				}
				info := db.table("t")
				rows := db.pairs(info, true)
				if theirs != nil {
					id := info.ID
					info = db.table("empty").Clone()
					info.ID = id
				}
				c := newCopied(t)
				c.put(rows)
				task := c.task(info)
				var err error
				task.SQLMode, err = mysql.GetSQLMode(mode)
				require.NoError(t, err)
				_, ours := backfill.Run(t.Context(), backfill.Options{Store: c.store, TempDir: c.temp}, backfill.Spec{Task: task})
				require.Equal(t, code(theirs), code(ours), "TiDB: %v, ours: %v", theirs, ours)
				if theirs == nil {
					require.NoError(t, ours)
					requireSame(t, db.pairs(info, false), c.entries(info, task.TS), tc.column)
					return
				}
				var bad *encode.RowError
				require.ErrorAs(t, ours, &bad)
				db.requireBad(bad, tc.index, theirs)
			})
		}
	}
}

// requireBad checks that the rows of t that an index was refused for are those: TiDB refuses each of them alone,
// and takes the others.
func (db *tidb) requireBad(bad *encode.RowError, index string, theirs error) {
	db.t.Helper()
	refused := make(map[int64]bool)
	for _, row := range bad.Rows {
		_, handle, err := tablecodec.DecodeRecordKey(row.Key)
		require.NoError(db.t, err)
		require.Equal(db.t, "i", row.Index.Name.L)
		require.NotNil(db.t, row.Column)
		refused[handle.IntValue()] = true
	}
	for id := int64(1); id <= 3; id++ {
		db.exec("create table one like t")
		db.exec(fmt.Sprintf("insert ignore into one (id, n, s, j) select id, n, s, j from t where id = %d", id))
		_, err := db.session.Execute(context.Background(), "alter table one add "+index)
		if refused[id] {
			require.Equal(db.t, code(theirs), code(err), "row %d: %v", id, err)
		} else {
			require.NoError(db.t, err, "row %d", id)
		}
		db.exec("drop table one")
	}
}
