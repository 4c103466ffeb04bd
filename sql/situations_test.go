package sql_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var queriesOfC = []string{
	"select id, c from t where c = 'row 3'",
	"select id from t where c in ('row 5', 'row 6', 'new 7', 'gone') order by id",
	"select id, k, c from t where c >= 'a' order by c, id",
}

// Each row's unique value is another's by the time the entries of the scan are
// imported.
func TestUniqueValuesChangeHandsBetweenScanAndImport(t *testing.T) {
	for _, point := range []string{"before backfill backfilled", betweenScanAndImport} {
		t.Run(point, func(t *testing.T) {
			n := newJobNode(t)
			n.fill(300)
			n.during(point,
				// In two transactions, in one, and back and forth.
				"delete from t where id = 3", "insert into t values (1003, 3, 'row 3')",
				"begin", "delete from t where id = 4", "insert into t values (1004, 4, 'row 4')", "commit",
				"begin", "update t set c = 'aside' where id = 5", "update t set c = 'row 5' where id = 6",
				"update t set c = 'row 6' where id = 5", "commit",
				"delete from t where id = 7", "insert into t values (1007, 7, 'row 7')",
				"delete from t where id = 1007", "insert into t values (7, 7, 'row 7')",
				// A whole range of them.
				"begin", "delete from t where id between 100 and 199", "insert into t values "+shifted(100, 199), "commit",
			)
			n.alter("alter table t add unique index c (c)")
			require.Equal(t, []string{"1003"}, n.c.queryFlat("select id from t where c = 'row 3'"))
			require.Equal(t, []string{"199"}, n.c.queryFlat("select id from t where c = 'row 100'"))
			n.requireIndex("c", queriesOfC...)
			requireCode(t, n.c.try("insert into t values (2000, 0, 'row 3')"), 1062, "Duplicate entry 'row 3' for key 't.c'")
		})
	}
}

// One statement takes a value from a row, or from the key of a row, and gives it
// to another.
func TestUniqueValuesChangeHandsWithinAStatement(t *testing.T) {
	for _, point := range []string{"after change-schema write-only", "before backfill backfilled", betweenScanAndImport} {
		t.Run(point, func(t *testing.T) {
			n := newJobNode(t)
			n.c.exec("create table t (id int primary key, k int, c varchar(40))")
			n.c.exec("insert into t values " + rowList(1, 100, "row"))
			n.during(point,
				"update t set id = id + 1000 where id between 10 and 20",
				"update t set c = case when id = 30 then null else 'row 30' end where id in (30, 31)",
				"replace into t values (50, 0, 'row 50')",
			)
			n.alter("alter table t add unique index c (c)")
			require.Equal(t, [][]string{{"31", "row 30"}, {"40", "row 40"}, {"50", "row 50"}, {"1010", "row 10"}},
				n.c.query("select id, c from t where c in ('row 10', 'row 30', 'row 31', 'row 40', 'row 50') order by id"))
			n.requireIndex("c", queriesOfC...)
		})
	}
}

// A row that keeps its key in an index that is being built, while what the entry
// holds beside the key changes, is no duplicate of itself.
func TestUniqueKeyIsRewrittenBetweenScanAndImport(t *testing.T) {
	n := newJobNode(t)
	n.c.exec("create table t (id int primary key, k int, c varchar(40) collate utf8mb4_general_ci)")
	n.c.exec("insert into t values " + rowList(1, 100, "row"))
	n.during("before take-snapshot snapshot", "update t set c = concat('Row ', id) where id <= 30")
	n.during(betweenScanAndImport,
		"update t set c = upper(c) where id between 20 and 60",
		"begin", "update t set c = concat('ROW ', id) where id = 70", "update t set c = concat('rOw ', id) where id = 70", "commit")
	n.alter("alter table t add unique index c (c)")
	require.Equal(t, [][]string{{"25", "ROW 25"}, {"70", "rOw 70"}, {"90", "row 90"}},
		n.c.query("select id, c from t where c = 'row 25' or c = 'row 70' or c = 'row 90' order by id"))
	n.requireIndex("c", "select id, c from t where c = 'row 3'", "select id, k, c from t where c >= 'A' order by c, id")
	requireCode(t, n.c.try("insert into t values (2000, 0, 'roW 25')"), 1062, "Duplicate entry 'roW 25' for key 't.c'")
}

// shifted returns the VALUES of rows of t that have each other's c.
func shifted(from, to int) string {
	text := ""
	for id := from; id <= to; id++ {
		if id > from {
			text += ","
		}
		text += fmt.Sprintf("(%d,%d,'row %d')", id, id%10, from+to-id)
	}
	return text
}

func TestValueInsertedAndDeletedInWriteOnly(t *testing.T) {
	for _, kind := range []string{"index", "unique index"} {
		for _, point := range []string{"after change-schema write-only", "after change-schema write-reorg"} {
			t.Run(kind+" "+point, func(t *testing.T) {
				n := newJobNode(t)
				n.fill(50)
				n.during(point,
					"insert into t values (100, 0, 'gone')", "delete from t where id = 100",
					"begin", "insert into t values (101, 0, 'gone too')", "delete from t where c = 'gone too'", "commit",
					"insert into t values (102, 0, 'back')", "delete from t where id = 102", "insert into t values (103, 0, 'back')",
					"update t set c = 'short' where id = 8", "update t set c = 'row 8' where id = 8",
					"begin", "insert into t values (104, 0, 'undone')", "rollback",
				)
				n.alter("alter table t add " + kind + " c (c)")
				for _, c := range []string{"gone", "gone too", "short", "undone"} {
					require.Empty(t, n.c.query("select id from t where c = '"+c+"'"))
				}
				require.Equal(t, []string{"103"}, n.c.queryFlat("select id from t where c = 'back'"))
				n.requireIndex("c", queriesOfC...)
			})
		}
	}
}

// Statements that insert or change, as it comes, many rows at once.
func TestReplaceIgnoreAndUpsertBetweenScanAndImport(t *testing.T) {
	for _, kind := range []string{"index", "unique index"} {
		t.Run(kind, func(t *testing.T) {
			n := newJobNode(t)
			n.fill(600)
			n.during(betweenScanAndImport,
				"replace into t values "+rowList(1, 100, "replaced"),
				"replace into t values "+rowList(51, 150, "replaced again"),
				"replace into t values "+rowList(601, 650, "added"),
				"insert ignore into t values "+rowList(151, 250, "ignored"),
				"insert ignore into t values "+rowList(590, 690, "half ignored"),
				"insert into t values "+rowList(251, 350, "upsert")+" on duplicate key update c = concat('updated ', id), k = k + 1",
				"insert into t values "+rowList(691, 700, "upsert")+" on duplicate key update c = 'never'",
				// Values that were given up above.
				"replace into t values (901, 1, 'row 1'), (902, 2, 'row 51'), (903, 3, 'replaced 60')",
				"insert into t values (3, 0, 'x') on duplicate key update id = 803, c = 'moved'",
			)
			n.alter("alter table t add " + kind + " c (c)")
			for c, want := range map[string][]string{
				"row 1": {"901"}, "row 51": {"902"}, "replaced 60": {"903"}, "replaced 50": {"50"}, "replaced again 60": {"60"},
				"ignored 151": {}, "row 151": {"151"}, "half ignored 600": {}, "half ignored 651": {"651"}, "updated 251": {"251"},
				"row 251": {}, "upsert 691": {"691"}, "moved": {"803"}, "replaced 3": {}, "added 601": {"601"},
			} {
				require.Equal(t, want, n.c.queryFlat("select id from t where c = '"+c+"'"), c)
			}
			n.requireIndex("c", append(queriesOfC, "select id from t where c between 'replaced' and 'row' order by c")...)
		})
	}
}

// The same statements where an index that is complete decides, with another in
// the making.
func TestReplaceByAnotherUniqueKeyBetweenScanAndImport(t *testing.T) {
	n := newJobNode(t)
	n.fill(300)
	n.c.exec("alter table t add unique index c (c)")
	n.during(betweenScanAndImport,
		// Rows go because their c is taken, and others come with other ids and ks.
		"replace into t select id + 1000, k + 100, c from t where id <= 100",
		"insert ignore into t select id + 2000, k + 200, c from t where id between 101 and 200",
		"insert into t values "+rowList(201, 300, "row")+" on duplicate key update k = k + 300",
	)
	n.alter("alter table t add index k (k)")
	require.Equal(t, []string{"300"}, n.c.queryFlat("select count(*) from t"))
	require.Equal(t, []string{"100"}, n.c.queryFlat("select count(*) from t where k between 100 and 199"))
	require.Equal(t, []string{"100"}, n.c.queryFlat("select count(*) from t where k between 300 and 399"))
	n.requireIndex("k", "select id from t where k = 105 order by id", "select k, id from t where k > 0 order by k, id",
		"select id, c from t where k in (5, 205, 305) order by id")
}

// A few rows change all the time, from before the job until after it.
func TestHotRowsThroughoutTheBuild(t *testing.T) {
	for _, kind := range []string{"index", "unique index"} {
		t.Run(kind, func(t *testing.T) {
			n := newJobNode(t)
			n.fill(2000)
			stop := make(chan struct{})
			failed := make(chan error, 3)
			var wg sync.WaitGroup
			for worker := range 3 {
				c := n.conn()
				wg.Go(func() { failed <- heat(c, worker, stop) })
			}
			for range 5 {
				n.alter("alter table t add " + kind + " c (c)")
				n.c.exec("admin check table t")
				n.c.exec("alter table t drop index c")
			}
			n.alter("alter table t add " + kind + " c (c)")
			close(stop)
			wg.Wait()
			for range 3 {
				require.NoError(t, <-failed)
			}
			n.requireIndex("c", append(queriesOfC, "select id, k from t where c like 'hot%' order by c")...)
		})
	}
}

// heat changes three rows over and over, each to values of its own that come
// back; the rows are removed and come back as well.
func heat(c *conn, worker int, stop chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		id := 1 + worker*100 + i%3
		statement := fmt.Sprintf("update t set c = 'hot %d %d', k = k + 1 where id = %d", id, i%7, id)
		switch i % 5 {
		case 3:
			statement = fmt.Sprintf("replace into t values (%d, 0, 'hot %d')", id, id)
		case 4:
			statement = fmt.Sprintf("update t set c = 'row %d' where id = %d", id, id)
		}
		if err := c.try(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
}

// start executes a statement in the background.
func (n *jobNode) start(statement string) <-chan error {
	done := make(chan error, 1)
	c := n.conn()
	go func() { done <- c.try(statement) }()
	return done
}

// An open transaction that has written holds the job up, alone and until it
// ends.
func TestIdleWriterHoldsTheJobUpAlone(t *testing.T) {
	for _, kind := range []string{"index", "unique index"} {
		for _, end := range []string{"commit", "rollback"} {
			t.Run(kind+" "+end, func(t *testing.T) {
				n := newJobNode(t)
				n.fill(50)
				idle, other := n.conn(), n.conn()
				idle.exec("begin")
				idle.exec("insert into t values (100, 1, 'idle')")
				idle.exec("update t set c = 'idle too' where id = 7")
				done := n.start("alter table t add " + kind + " c (c)")
				require.Eventually(t, func() bool { return len(other.query("select * from mysql.tidb_mdl_view")) == 1 }, 10*time.Second, time.Millisecond)
				// Others go on, also new ones, and nobody else is waited for.
				other.exec("insert into t values (101, 1, 'other')")
				other.exec("begin")
				other.exec("delete from t where id = 9")
				other.exec("commit")
				n.c.exec("update t set k = 5 where id = 8")
				require.Equal(t, []string{"50"}, other.queryFlat("select count(*) from t"))
				select {
				case err := <-done:
					t.Fatalf("the job did not wait: %v", err)
				default:
				}
				idle.exec(end)
				require.NoError(t, <-done)
				want := []string{}
				if end == "commit" {
					want = []string{"100"}
				}
				require.Equal(t, want, n.c.queryFlat("select id from t where c = 'idle'"))
				n.requireIndex("c", queriesOfC...)
			})
		}
	}
}

// An open transaction that has only read holds nothing up, reads what it has
// read before, and not through an index that is younger than it is.
func TestIdleReaderHoldsNothingUp(t *testing.T) {
	n := newJobNode(t)
	n.fill(200)
	reader := n.conn()
	const query = "select id, k from t where c = 'row 77'"
	reader.exec("begin")
	require.Equal(t, [][]string{{"77", "7"}}, reader.query(query))
	n.during(betweenScanAndImport, "update t set c = 'changed' where id = 77", "insert into t values (1000, 0, 'row 77')")

	n.alter("alter table t add index c (c), add unique index u (id, c)")
	require.Equal(t, [][]string{{"1000", "0"}}, n.c.query(query))
	require.Equal(t, "c", explainKey(n.c, query)[0][2])

	require.Equal(t, [][]string{{"77", "7"}}, reader.query(query))
	require.Equal(t, "<nil>", explainKey(reader, query)[0][2], "not through the index")
	require.Empty(t, reader.query("select id from t where c = 'changed'"))
	require.Equal(t, []string{"200"}, reader.queryFlat("select count(*) from t where c like 'row%'"))

	// It may go on to write, under the new schema.
	reader.exec("update t set k = 99 where id = 78")
	require.Equal(t, [][]string{{"78", "99"}}, reader.query("select id, k from t where c = 'row 78'"))
	reader.exec("commit")
	require.Equal(t, [][]string{{"1000", "0"}}, reader.query(query))
	require.Equal(t, "c", explainKey(reader, query)[0][2])
	n.c.exec("admin check table t")
	n.alter("alter table t drop index u")
	n.requireIndex("c", queriesOfC...)
}

// What is written under one time zone is found under another, also while the
// index is built: keys are instants.
func TestTimeZonesDuringTheBuild(t *testing.T) {
	for _, kind := range []string{"index", "unique index"} {
		t.Run(kind, func(t *testing.T) {
			n := newJobNode(t)
			n.c.exec("create table t (id int primary key, ts timestamp(3) null, c varchar(10))")
			n.c.exec("set time_zone = '+09:00'")
			n.c.exec("insert into t values (1, '2024-05-05 21:00:00', 'a'), (2, '2024-05-05 21:00:01', 'b'), (3, null, 'c'), (4, null, 'd')")
			n.during("after change-schema write-only",
				"set time_zone = 'America/New_York'", "insert into t values (5, '2024-05-05 08:00:02', 'e')",
				"set time_zone = '+00:00'", "insert into t values (6, '2024-05-05 12:00:03', 'f')",
			)
			n.during(betweenScanAndImport,
				"set time_zone = '-03:00'", "update t set ts = '2024-05-05 09:00:04' where id = 1",
				// The instant that the row before had, by another clock.
				"set time_zone = 'Europe/Berlin'", "insert into t values (7, '2024-05-05 14:00:00', 'g')",
				"update t set c = 'bb' where id = 2", "set time_zone = '+05:30'", "update t set c = 'b' where id = 2",
				// Two instants that clocks in New York show alike.
				"set time_zone = '+00:00'", "insert into t values (8, '2024-11-03 05:30:00', 'h'), (9, '2024-11-03 06:30:00', 'i')",
				"set time_zone = 'America/New_York'", "update t set c = 'hh' where id in (8, 9)",
			)
			n.alter("alter table t add " + kind + " ts (ts)")

			reader := n.connWith("loc=UTC")
			for zone, want := range map[string]map[string]string{
				"+02:00":           {"2024-05-05 14:00:00": "7", "2024-05-05 14:00:01": "2", "2024-05-05 14:00:02": "5", "2024-05-05 14:00:03": "6", "2024-05-05 14:00:04": "1"},
				"Asia/Tokyo":       {"2024-05-05 21:00:00": "7", "2024-05-05 21:00:04": "1", "2024-11-03 14:30:00": "8", "2024-11-03 15:30:00": "9"},
				"America/New_York": {"2024-05-05 08:00:00": "7"},
			} {
				reader.exec("set time_zone = '" + zone + "'")
				for at, id := range want {
					q := "select id from t where ts = '" + at + "'"
					require.Equal(t, []string{id}, reader.queryFlat(q), "%s %s", zone, q)
					require.Equal(t, "ts", explainKey(reader, q)[0][2], q)
				}
				n.c.exec("set time_zone = '" + zone + "'")
				n.requireIndex("ts", "select id, ts from t where ts >= '2024-05-05' order by ts, id", "select id, ts, c from t where ts is null order by id")
			}
			if kind == "index" {
				return
			}
			n.c.exec("set time_zone = 'America/New_York'")
			requireCode(t, n.c.try("insert into t values (10, '2024-05-05 08:00:03', 'x')"), 1062,
				"Duplicate entry '2024-05-05 08:00:03.000' for key 't.ts'")
			n.c.exec("set time_zone = '+00:00'")
			requireCode(t, n.c.try("update t set ts = '2024-05-05 12:00:03' where id = 1"), 1062,
				"Duplicate entry '2024-05-05 12:00:03.000' for key 't.ts'")
		})
	}
}

// Duplicates that the job finds are named by the clock of the session that asked
// for the index, whoever wrote the rows.
func TestDuplicateTimestampIsNamedInTheSessionsZone(t *testing.T) {
	for _, point := range []string{"before take-snapshot snapshot", betweenScanAndImport} {
		t.Run(point, func(t *testing.T) {
			n := newJobNode(t)
			n.c.exec("set time_zone = '+09:00'")
			n.c.exec("create table t (id int primary key, ts timestamp, c varchar(10))")
			n.c.exec("insert into t values (1, '2024-05-05 21:00:00', 'a'), (2, '2024-05-05 22:00:00', 'b')")
			n.during(point, "set time_zone = 'Europe/Berlin'", "insert into t values (3, '2024-05-05 14:00:00', 'c')")
			n.c.exec("set time_zone = 'America/New_York'")
			requireCode(t, n.c.try("alter table t add unique index ts (ts)"), 1062, "Duplicate entry '2024-05-05 08:00:00' for key 't.ts'")
			n.c.exec("admin check table t")
			require.Equal(t, [][]string{{"2024-05-05 08:00:00"}}, n.c.query("select entry from information_schema.ddl_duplicate_entries"))
		})
	}
}
