package sql_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestColumnTypes(t *testing.T) {
	for _, tc := range []struct {
		typ    string
		values []string // literals, and how they come back
		back   []string
	}{
		{"tinyint", []string{"-128", "127"}, []string{"-128", "127"}},
		{"tinyint unsigned", []string{"255"}, []string{"255"}},
		{"tinyint(1)", []string{"true"}, []string{"1"}},
		{"smallint", []string{"-32768"}, []string{"-32768"}},
		{"mediumint unsigned", []string{"16777215"}, []string{"16777215"}},
		{"int", []string{"-2147483648"}, []string{"-2147483648"}},
		{"bigint", []string{"-9223372036854775808"}, []string{"-9223372036854775808"}},
		{"bigint unsigned", []string{"18446744073709551615"}, []string{"18446744073709551615"}},
		{"decimal(10,3)", []string{"1.5", "-1234567.1239", "0"}, []string{"1.500", "-1234567.124", "0.000"}},
		{"decimal(65,30)", []string{"12345678901234567890123456789012345.123456789012345678901234567891"}, []string{"12345678901234567890123456789012345.123456789012345678901234567891"}},
		{"float", []string{"1.5", "-3e10"}, []string{"1.5", "-3e+10"}},
		{"double", []string{"1.25e-5"}, []string{"1.25e-05"}},
		{"char(5)", []string{"'ab  '"}, []string{"ab"}},
		{"varchar(5)", []string{"'ab  '", "'日本'"}, []string{"ab  ", "日本"}},
		{"text", []string{"'hello'"}, []string{"hello"}},
		{"binary(4)", []string{"'ab'"}, []string{"ab\x00\x00"}},
		{"varbinary(4)", []string{"x'00ff'"}, []string{"\x00\xff"}},
		{"blob", []string{"x'00ff'"}, []string{"\x00\xff"}},
		{"date", []string{"'2024-02-29'"}, []string{"2024-02-29"}},
		{"datetime", []string{"'2024-02-29 12:13:14.6'"}, []string{"2024-02-29 12:13:15"}},
		{"datetime(3)", []string{"'2024-02-29 12:13:14.5678'"}, []string{"2024-02-29 12:13:14.568"}},
		{"timestamp", []string{"'2024-02-29 12:13:14'"}, []string{"2024-02-29 12:13:14"}},
		{"time", []string{"'-12:13:14'", "'100:00:00.6'"}, []string{"-12:13:14", "100:00:01"}},
		{"time(6)", []string{"'12:13:14.123456'"}, []string{"12:13:14.123456"}},
		{"year", []string{"2024"}, []string{"2024"}},
		{"enum('a','b')", []string{"'b'", "1"}, []string{"b", "a"}},
		{"set('x','y','z')", []string{"'z,x'"}, []string{"x,z"}},
		{"bit(10)", []string{"b'1000000001'"}, []string{"\x02\x01"}},
		{"json", []string{`'{"a": [1, 2.5, null, "x"]}'`}, []string{`{"a": [1, 2.5, null, "x"]}`}},
	} {
		t.Run(tc.typ, func(t *testing.T) {
			t.Parallel()
			c := sharedNode(t).conn()
			name := "`t " + tc.typ + "`"
			c.exec("create table " + name + " (id int primary key, v " + tc.typ + ")")
			for i, v := range tc.values {
				id := 10 * (i + 1)
				c.exec(fmt.Sprintf("insert into %s values (%d, %s)", name, id, v))
				// What was read can be written back without a change.
				c.exec(fmt.Sprintf("update %s set v = v where id = %d", name, id))
				c.exec(fmt.Sprintf("insert into %s select id + 1, v from %[1]s where id = %d", name, id))
				for _, id := range []int{id, id + 1} {
					require.Equal(t, [][]string{{tc.back[i]}}, c.query("select v from "+name+" where id = ?", id), "binary protocol: %s", v)
					require.Equal(t, [][]string{{tc.back[i]}}, c.query(fmt.Sprintf("select v from %s where id = %d", name, id)), "text protocol: %s", v)
				}
			}
			c.exec("insert into " + name + " (id, v) values (1000, null)")
			require.Equal(t, [][]string{{"<nil>"}}, c.query("select v from "+name+" where id = 1000"))
		})
	}
}

func TestDefaults(t *testing.T) {
	c := newNode(t).conn()
	c.exec("set time_zone = '+05:00'")
	c.exec(`create table t (id int primary key, a int default 7, b varchar(10) not null default 'x''y', c decimal(5,2) default 1.5,
		d datetime default '2020-01-02 03:04:05', e enum('p','q') default 'q', f bit(3) default b'101', g timestamp not null default '2020-01-02 03:04:05',
		h timestamp(3) null default current_timestamp(3) on update current_timestamp(3), i double default -2.5, j date default null, k json) comment 'it''s'`)
	c.exec("insert into t (id) values (1)")
	require.Equal(t, []string{"7", "x'y", "1.50", "2020-01-02 03:04:05", "q", "\x05", "2020-01-02 03:04:05", "-2.5", "<nil>", "<nil>"},
		c.query("select a, b, c, d, e, f, g, i, j, k from t")[0])
	require.Equal(t, []string{"1"}, c.queryFlat("select abs(timestampdiff(second, h, now())) < 5 from t"))
	c.exec("set time_zone = '+00:00'")
	require.Equal(t, []string{"2020-01-01 22:04:05"}, c.queryFlat("select g from t"))
	c.exec("insert into t (id) values (2)")
	require.Equal(t, []string{"2020-01-01 22:04:05"}, c.queryFlat("select g from t where id = 2"))
	require.Equal(t, "CREATE TABLE `t` (\n"+
		"  `id` int NOT NULL,\n"+
		"  `a` int DEFAULT '7',\n"+
		"  `b` varchar(10) NOT NULL DEFAULT 'x''y',\n"+
		"  `c` decimal(5,2) DEFAULT '1.5',\n"+
		"  `d` datetime DEFAULT '2020-01-02 03:04:05',\n"+
		"  `e` enum('p','q') DEFAULT 'q',\n"+
		"  `f` bit(3) DEFAULT b'101',\n"+
		"  `g` timestamp NOT NULL DEFAULT '2020-01-01 22:04:05',\n"+
		"  `h` timestamp(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),\n"+
		"  `i` double DEFAULT '-2.5',\n"+
		"  `j` date DEFAULT NULL,\n"+
		"  `k` json,\n"+
		"  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */\n"+
		") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='it''s'", c.query("show create table t")[0][1])
}

func TestShowCreateTableIsReadBack(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (a int unsigned auto_increment, b varchar(20) collate utf8mb4_general_ci not null comment 'c;`', c text, d tinyint(1), " +
		"e varbinary(5), primary key (b, a), unique key a (a), key c (c(10), b(3)) comment 'k', key `we``ird` (d)) default collate utf8mb4_0900_ai_ci auto_increment = 50")
	text := c.query("show create table t")[0][1]
	c.exec("drop table t")
	c.exec(text)
	require.Equal(t, text, c.query("show create table t")[0][1])
	require.Contains(t, text, "KEY `c` (`c`(10),`b`(3)) COMMENT 'k'")
	require.Contains(t, text, "AUTO_INCREMENT=50 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci")
	require.Contains(t, text, "`b` varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL COMMENT 'c;`'")
}

func TestTimeZones(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key, ts timestamp null, dt datetime, v int, key ts (ts))")
	c.exec("set time_zone = '+02:00'")
	c.exec("insert into t values (1, '2024-05-05 12:00:00', '2024-05-05 12:00:00', 0)")
	c.exec("set time_zone = 'America/New_York'")
	require.Equal(t, [][]string{{"2024-05-05 06:00:00", "2024-05-05 12:00:00"}}, c.query("select ts, dt from t where ts = '2024-05-05 06:00:00'"))
	require.Equal(t, [][]string{{"t", "ref", "ts", "Using where"}}, explainKey(c, "select * from t where ts = '2024-05-05 06:00:00'"))
	// Two instants that this zone's clocks show alike.
	c.exec("set time_zone = '+00:00'")
	c.exec("insert into t values (2, '2024-11-03 05:30:00', null, 0), (3, '2024-11-03 06:30:00', null, 0)")
	c.exec("set time_zone = 'America/New_York'")
	require.Equal(t, []string{"2024-11-03 01:30:00", "2024-11-03 01:30:00"}, c.queryFlat("select ts from t where id in (2, 3)"))
	c.exec("update t set v = 1 where id in (2, 3)")
	c.exec("set time_zone = '+00:00'")
	require.Equal(t, []string{"2024-11-03 05:30:00", "2024-11-03 06:30:00"}, c.queryFlat("select ts from t where v = 1 order by id"))
	require.Equal(t, []string{"3"}, c.queryFlat("select id from t where ts = '2024-11-03 06:30:00'"))
	c.exec("set time_zone = 'America/New_York'")
	c.exec("delete from t where id = 3")
	c.exec("set time_zone = '+00:00'")
	require.Empty(t, c.query("select id from t where ts = '2024-11-03 06:30:00'"))
}

func TestCollations(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (a varchar(10) collate utf8mb4_general_ci, b varchar(10) collate utf8mb4_bin, c varchar(10) collate utf8mb4_0900_ai_ci, d varbinary(10), " +
		"unique key a (a), unique key b (b), unique key c (c), unique key d (d))")
	c.exec("insert into t values ('Abc', 'Abc', 'Abc', 'Abc')")
	requireCode(t, c.try("insert into t (a) values ('aBC')"), 1062, "Duplicate entry 'aBC' for key 't.a'")
	requireCode(t, c.try("insert into t (c) values ('ÁBC')"), 1062, "Duplicate entry 'ÁBC' for key 't.c'")
	c.exec("insert into t (b) values ('abc')")
	c.exec("insert into t (d) values ('abc')")
	require.Len(t, c.query("select * from t where a = 'ABC'"), 1)
	require.Len(t, c.query("select * from t where a in ('ABC', 'abc', 'Abc')"), 1)
	require.Len(t, c.query("select * from t where c = 'abc'"), 1)
	require.Len(t, c.query("select * from t where b = 'abc'"), 1)
}
