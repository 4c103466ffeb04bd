package shapes

import (
	"math/rand/v2"
	"testing"
)

// TestShapesFoundBySearch are cases that TestRandomShapes has found, of ours and of TiDB's.
func TestShapesFoundBySearch(t *testing.T) {
	p := newRounds(t, true)
	for _, c := range []struct {
		name  string
		table []string // makes the table and its rows
		index string
		// byRows says that TiDB's transactional build is wrong: what the rows give is wanted.
		byRows bool
	}{
		{
			// MODIFY COLUMN rewrites rows with all columns, the handle among them.
			name: "rows that repeat their handle",
			table: []string{
				"create table t (id int unsigned primary key, a int, c varchar(10))",
				"insert into t values (1, 1, '5'), (2147483647, 2, '6'), (2147483648, 3, '7'), (3019922805, 4, '8'), (4294967294, 5, '9'), (4294967295, 6, null)",
				"alter table t modify column c int",
			},
			index: "add index i0 (c), add unique index i1 (a, id)",
		},
		{
			name: "zeros of columns added later",
			table: []string{
				"create table t (id int primary key, a int)",
				"insert into t values (1, 1), (2, 2), (3, 3)",
				"alter table t add column d datetime(3) not null, add column n decimal(10,3) not null, add column s binary(3) not null, " +
					"add column m time(2) not null, add column b bit(20) not null, add column y timestamp(6) not null, add column e enum('x','y') not null",
			},
			index: "add index i0 ((cast(d as char(30)))), add index i1 ((cast(n as char(30)))), add index i2 ((hex(s))), add index i3 ((cast(m as char(30))))," +
				"add index i4 ((hex(b))), add index i5 ((cast(y as char(40)))), add index i6 (d, n, s, m, b, y, e)",
			byRows: true,
		},
		{
			// Error 1062 shows the value of the first of the rows.
			name:  "duplicates that a collation takes for equal",
			table: []string{"create table t (id int primary key, c varchar(10) collate utf8mb4_general_ci)", "insert into t values (1, 'b '), (2, 'B')"},
			index: "add unique index i0 (c)",
		},
		{
			name:  "duplicates in several partitions",
			table: []string{"create table t (id int, c varchar(10) collate utf8mb4_general_ci) partition by hash (id) partitions 3", "insert into t values (2, ' '), (1, '  '), (0, 'x')"},
			index: "add unique index i0 (c) global",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.t = t
			d := &round{rounds: p, r: rand.New(rand.NewPCG(1, 1))}
			d.reset()
			for _, statement := range c.table {
				d.history = append(d.history, statement)
				p.theirs.run(statement)
				p.ours.run(statement)
			}
			d.copyRows(p.theirs.table(), p.ours.table())
			d.history = append(d.history, "alter table t "+c.index)
			d.compare(&randomTable{byRows: c.byRows}, "alter table t "+c.index)
		})
	}
}
