package equality

import (
	"fmt"
	"testing"

	"fastddl/internal/randtest"
)

// keys are the kinds of primary keys.
var keys = map[string]string{
	"int handle":    "primary key (id)",
	"common handle": "primary key (s(3), id) clustered",
	"ci handle":     "primary key (ci, id) clustered",
	"two columns":   "primary key (d, id) clustered",
	"hidden row id": "primary key (id) nonclustered",
	"no key":        "",
}

func base() table {
	return table{
		columns: []string{
			"id bigint not null", "n int", "s varchar(20) collate utf8mb4_bin not null",
			"ci varchar(20) collate utf8mb4_general_ci not null", "d decimal(12,4) not null", "ts timestamp(3) null", "dt datetime(6)",
		},
		values: []values{
			distinct(number(-1000000, 1000000)), orNull(number(-9, 99)), text, text, decimals, orNull(datetimes), orNull(datetimes),
		},
	}
}

func TestKeysAndColumns(t *testing.T) {
	randtest.SkipShort(t)
	db, r := newTiDB(t), newRand(t)
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			db.t = t
			tbl := base()
			tbl.options = key
			tbl.indexes = []string{
				"index @ (n)", "index @ (ts, n desc)", "unique @ (dt, id)", "index @ (ci, s)", "index @ (s(2), ci(3))",
				"index @ (d) invisible", "unique @ (n, s, ci, id)", "index @ (ci(5), id)", "index @ (s(5))",
			}
			tbl.requireEqual(db, r, 400)
		})
	}
}

func TestEveryTypeAndCollation(t *testing.T) {
	randtest.SkipShort(t)
	db, r := newTiDB(t), newRand(t)
	binary := word("abc 0", 12)
	types := []struct {
		column string
		values values
		length int // of a prefix; 0 is none
	}{
		{"tinyint", number(-128, 127), 0}, {"tinyint unsigned", number(0, 255), 0}, {"smallint", number(-9, 9), 0},
		{"mediumint", number(-99, 99), 0}, {"int unsigned", number(0, 1<<32-1), 0}, {"bigint unsigned", oneOf("0", "18446744073709551615", "7"), 0},
		{"year", number(1901, 2155), 0}, {"float", decimals, 0}, {"double", decimals, 0}, {"decimal(30,10)", decimals, 0},
		{"date", datetimes, 0}, {"time(3)", oneOf("'-12:00:01.5'", "'838:59:59'", "'00:00:00'"), 0}, {"bool", number(0, 1), 0},
		{"enum('x','y','zz')", oneOf("'x'", "'y'", "'zz'"), 0}, {"set('x','y','zz')", oneOf("''", "'x,zz'", "'y'"), 0},
		{"bit(11)", number(0, 2047), 0}, {"binary(12)", binary, 4}, {"varbinary(20)", binary, 4}, {"blob", binary, 4}, {"longblob", binary, 9},
		{"char(20) charset latin1", binary, 3}, {"varchar(20) charset ascii", binary, 3}, {"varchar(20) charset gbk", word("a中 ", 5), 2},
	}
	for _, collation := range []string{
		"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_0900_ai_ci", "utf8mb4_0900_bin", "utf8_bin", "utf8_general_ci", "utf8_unicode_ci",
	} {
		letters := text
		if collation[:5] == "utf8_" {
			letters = word("aAbBßéÉzZ日本 0", 9)
		}
		for _, tp := range []string{"char(20)", "varchar(20)", "text"} {
			types = append(types, struct {
				column string
				values values
				length int
			}{tp + " collate " + collation, letters, 3})
		}
	}
	for _, tp := range types {
		t.Run(tp.column, func(t *testing.T) {
			db.t = t
			column := "v"
			if tp.length > 0 {
				column = fmt.Sprintf("v(%d)", tp.length)
			}
			for _, key := range []string{"primary key (id)", fmt.Sprintf("primary key (%s, id) clustered", column)} {
				tbl := table{
					columns: []string{"id bigint not null", "v " + tp.column, "w " + tp.column},
					values:  []values{distinct(number(-1<<40, 1<<40)), tp.values, orNull(tp.values)},
					options: key,
					indexes: []string{"index @ (" + column + ")", "unique @ (w" + column[1:] + ", id)", "index @ (w" + column[1:] + ", " + column + ")"},
				}
				if tp.length > 0 && tp.column[len(tp.column)-4:] != "blob" && tp.column[:4] != "text" {
					tbl.indexes = append(tbl.indexes, "index @ (v, w)")
				}
				tbl.requireEqual(db, r, 60)
			}
		})
	}
}

func TestExpressions(t *testing.T) {
	randtest.SkipShort(t)
	db, r := newTiDB(t), newRand(t)
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			db.t = t
			tbl := base()
			tbl.options = key
			tbl.columns = append(tbl.columns,
				"v int as (n + 1)", "vv bigint as (v * 2)", "st varchar(40) as (concat(s, ci)) stored",
				"short varchar(3) collate utf8mb4_general_ci as (left(st, 3))", "lts timestamp(3) as (ts)", "u int unsigned as (n) ", "one int as (1)")
			tbl.values = append(tbl.values, nil, nil, nil, nil, nil, nil, nil)
			tbl.indexes = []string{
				"index @ ((lower(ci)))", "index @ (v)", "unique @ (vv, id)", "index @ (short, n)", "index @ ((n % 7), (upper(s)), ci(2))",
				"index @ ((hour(ts)), ts)", "index @ (lts, id)", "index @ ((cast(json_object('a', vv) as char(30))), v)", "index @ ((n * d))",
				"index @ (one)", "index @ ((date_format(dt, '%Y-%m')))",
			}
			tbl.requireEqual(db, r, 300)
		})
	}
}

func TestMultiValued(t *testing.T) {
	randtest.SkipShort(t)
	db, r := newTiDB(t), newRand(t)
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			db.t = t
			tbl := base()
			tbl.options = key
			tbl.columns = append(tbl.columns, "j json", "k json", "dates json")
			tbl.values = append(tbl.values,
				orNull(jsonArray(number(0, 20))), jsonArray(oneOf(`"a"`, `"B"`, `"日本 "`, `""`)), oneOf("json_array(date'2024-02-29', date'1999-12-31')", "json_array(date'2024-02-29')"))
			tbl.indexes = []string{
				"index @ ((cast(j as signed array)))", "index @ (n, (cast(j as unsigned array)), ci)", "index @ ((cast(k as char(10) array)))",
				"unique @ (id, (cast(j as signed array)), s)", "index @ ((cast(dates as date array)), dt)", "index @ (n)",
			}
			tbl.requireEqual(db, r, 200)
		})
	}
}

func TestPartitions(t *testing.T) {
	randtest.SkipShort(t)
	db, r := newTiDB(t), newRand(t)
	for name, key := range map[string]string{
		"int handle": "primary key (id)", "common handle": "primary key (ci, id) clustered", "hidden row id": "primary key (id) nonclustered", "no key": "",
	} {
		for suffix, count := range map[string]int{
			"partition by hash (id) partitions 7": 7,
			"partition by key (id) partitions 40": 40,
			"partition by range (id) (partition a values less than (-500000), partition b values less than (0), partition c values less than (maxvalue))": 3,
		} {
			t.Run(fmt.Sprintf("%s, %d partitions", name, count), func(t *testing.T) {
				db.t = t
				tbl := base()
				tbl.options, tbl.suffix = key, suffix
				tbl.columns = append(tbl.columns, "j json")
				tbl.values = append(tbl.values, jsonArray(number(0, 20)))
				tbl.indexes = []string{
					"index @ (n)", "unique @ (dt, id)", "index @ (ci, s(2))", "index @ ((lower(s)))", "index @ ((cast(j as signed array)), n)",
					"unique @ (id, n) global", "unique @ (id, ci) global",
				}
				tbl.requireEqual(db, r, 400)
			})
		}
	}
}

// TestColumnsAddedLater: rows that were written before a column existed have its
// first default, also where an expression or a time zone is between.
func TestColumnsAddedLater(t *testing.T) {
	randtest.SkipShort(t)
	db, r := newTiDB(t), newRand(t)
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			db.t = t
			tbl := base()
			tbl.options = key
			tbl.added = []string{
				"a int default 42", "b timestamp(3) default '2020-07-01 12:00:00.125'", "c varchar(20) collate utf8mb4_general_ci not null default 'Ab '",
				"e enum('x','y') not null", "g decimal(10,2) not null", "h bigint as (a + hour(b))",
			}
			tbl.indexes = []string{
				"index @ (a)", "index @ (b)", "index @ (c, a)", "index @ (c(1))", "index @ (e, g)", "index @ (h, b)", "index @ ((lower(c)), b)", "unique @ (b, id, h)",
			}
			tbl.requireEqual(db, r, 100)
		})
	}
}

// TestRepeatedHour: two instants that the clocks of the statement's zone show alike are two in an index on a TIMESTAMP,
// also where expressions are computed in that zone beside it. The entries are those of DML.
func TestRepeatedHour(t *testing.T) {
	db := newTiDB(t)
	db.exec("set time_zone = 'UTC'")
	for name, key := range map[string]string{
		"int handle": "primary key (id)", "common handle": "primary key (ts, ci, id) clustered", "hidden row id": "primary key (id) nonclustered",
	} {
		t.Run(name, func(t *testing.T) {
			db.t = t
			db.exec("drop table if exists t")
			db.exec("create table t (id int not null, ts timestamp(3) not null, ci varchar(20) collate utf8mb4_general_ci not null, j json, " + key +
				", unique u (ts, id), unique g (ts, ci) global, index r (ci, ts), index l ((lower(ci))), index j (ts, (cast(j as signed array)))" +
				") partition by hash (id) partitions 2")
			db.exec("insert into t values (1, '2024-10-27 00:30:00', 'A', '[1, 2]'), (2, '2024-10-27 01:30:00', 'A', '[1, 2]'), (3, '2024-10-27 02:30:00.125', 'A', '[3]')")
			db.exec("alter table t add column late timestamp not null default '2024-10-27 01:45:00'")
			db.exec("alter table t add index late (late)")
			requireBuiltEqual(db, key)
		})
	}
}

// TestTimesOfExpressions: a TIMESTAMP that an expression gives is the instant that DML of the statement's zone makes of it.
func TestTimesOfExpressions(t *testing.T) {
	db := newTiDB(t)
	db.exec("create table t (id int primary key, ts timestamp null, same timestamp as (ts), later timestamp as (same + interval 1 hour), " +
		"clock datetime as (later), unique u (ts), index s (same, id), index l (later, ts), index c (clock), index h ((hour(later))))")
	db.exec("insert into t (id, ts) values (1, '2024-10-27 01:30:00'), (2, '2024-10-27 02:30:00'), (3, '2024-10-27 03:30:00'), (4, '2024-03-31 01:15:00'), (5, '2024-03-31 03:15:00'), (6, null)")
	requireBuiltEqual(db, "timestamps of expressions")
}
