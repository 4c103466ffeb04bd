package stmt_test

import (
	"time"

	"fastddl/sql/stmt"
)

func jobs() []stmt.JobInfo {
	at := func(s int) time.Time { return time.Date(2026, 1, 2, 3, 4, s, 0, time.UTC) }
	return []stmt.JobInfo{
		{ID: 4, Schema: "test", Table: "t", Type: "add index", SchemaState: "write reorganization", SchemaID: 2, TableID: 10, RowCount: 500,
			Created: at(9), Started: at(10), State: "running", Query: "alter table t add index i (a)", Percent: 50, RowsPerSecond: 100, ETA: 5 * time.Second, Stage: "scan"},
		{ID: 5, Schema: "test", Table: "u", Type: "add index", SchemaState: "none", SchemaID: 2, TableID: 11, State: "queueing",
			Created: at(11), Query: "alter table u add index i (a)", ETA: -1, WaitReason: "metadata lock"},
		{ID: 3, Schema: "test", Table: "t", Type: "drop index", SchemaState: "none", SchemaID: 2, TableID: 10, Created: at(5), Started: at(6), Ended: at(7), State: "synced", Done: true, Query: "drop index i on t", Percent: 100},
		{ID: 2, Schema: "test", Table: "t", Type: "add index", SchemaState: "none", SchemaID: 2, TableID: 10, Created: at(3), Started: at(3), Ended: at(4), State: "rollback done", Done: true, Query: "create unique index i on t (a)"},
		{ID: 1, Schema: "test", Table: "t", Type: "create table", SchemaState: "public", SchemaID: 2, TableID: 10, Created: at(1), Started: at(1), Ended: at(1), State: "synced", Done: true, Query: "create table t (id int primary key, a int)", Percent: 100},
	}
}
