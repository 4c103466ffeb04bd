package ctl

import (
	"context"
	"strconv"
)

// Setting is a variable and its value, of a session or a job.
type Setting struct{ Name, Value string }

// SettingFlag is a flag for a setting.
type SettingFlag struct {
	// Flag is its name; Variable that of the setting. Usage has the name of the value in backquotes.
	Flag, Variable, Usage string
}

var (
	windowFlag  = SettingFlag{"window", "fastddl_ddl_window", "when the build works: `HH:MM-HH:MM ZONE`; empty is always"}
	maxHoldFlag = SettingFlag{"max-hold", "fastddl_ddl_max_hold", "how long the parked build holds garbage collection: a `DURATION`"}
	publishFlag = SettingFlag{"publish", "fastddl_ddl_publish", "`WHO` publishes the indexes: auto, or manual, by fastddl ctl publish"}
)

// RunSettings are the flags of run: variables of the statement's session.
var RunSettings = []SettingFlag{
	windowFlag, maxHoldFlag, publishFlag,
	{"threads", "tidb_ddl_reorg_worker_cnt", "`WORKERS` of the build"},
	{"batch-size", "tidb_ddl_reorg_batch_size", "`ROWS` of a batch"},
	{"priority", "tidb_ddl_reorg_priority", "`PRIORITY` among builds: PRIORITY_LOW, PRIORITY_NORMAL, PRIORITY_HIGH"},
	{"verify", "fastddl_ddl_verify", "`HOW` entries are verified: auto or full"},
	{"preflight", "fastddl_ddl_preflight", "`WHAT` happens to a build that does not fit: off, warn, enforce"},
	{"engine", "fastddl_ddl_engine", "`ENGINE` that builds: fastddl or tidb"},
}

// JobSettings are the flags of alter: settings of a job.
var JobSettings = []SettingFlag{
	windowFlag, maxHoldFlag, publishFlag,
	{"threads", "thread", "`WORKERS` of the build"},
	{"batch-size", "batch_size", "`ROWS` of a batch"},
	{"max-write-speed", "max_write_speed", "`SIZE` that each node writes per second, such as 20MiB; 0 is no limit"},
}

// publishNow is the value that publishes indexes.
const publishNow = "now"

// Publish publishes the indexes of a build that waits for it.
func (c *Client) Publish(ctx context.Context, id int64) error {
	return c.Alter(ctx, id, []Setting{{publishFlag.Variable, publishNow}})
}

// literal is the value for a statement: TiDB takes numbers of ADMIN ALTER DDL JOBS as numbers only.
func (s Setting) literal() any {
	if n, err := strconv.ParseInt(s.Value, 10, 64); err == nil {
		return n
	}
	return s.Value
}
