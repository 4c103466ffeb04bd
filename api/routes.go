package api

import (
	"net/http"
)

// route is a path with a method: what is checked before it, what it does, and what the document says of it.
type route struct {
	method, path string
	// id names the operation in the document.
	id, summary string
	// open needs no log-in.
	open bool
	// endless is not bounded in time.
	endless bool
	// body makes what the JSON body is decoded into; nil for routes that change nothing.
	body func() any
	// query are the parameters of the URL.
	query []parameter
	// header are those of the head.
	header []parameter
	// returns is what an answer has, of any type that the document can describe, status its code (0 is 200).
	returns any
	status  int
	serve   func(c *call) (*answer, error)
}

// parameter is one of a URL or a head.
type parameter struct {
	name, kind, doc string
}

// changes says that a route may change something, so that it needs a JSON body, and the token of a cookie.
func (r route) changes() bool { return r.method != http.MethodGet }

// body returns what makes bodies of a type.
func bodyOf[T any]() func() any { return func() any { return new(T) } }

// none is the body of requests that say nothing.
type none struct{}

// rowsOf is an answer with rows of a table, or of a statement, in the document.
type rowsOf struct {
	name string
	// table has the columns, else columns.
	table   string
	columns []string
	list    bool
}

// routes are all of them. The document is made from them.
func (a *API) routes() []route {
	job := rowsOf{name: "job", table: "fastddl_ddl_jobs"}
	jobs := job
	jobs.list = true
	text := func(name, doc string) parameter { return parameter{name: name, kind: "string", doc: doc} }
	number := func(name, doc string) parameter { return parameter{name: name, kind: "integer", doc: doc} }
	limit := number("limit", "how many rows at most, 1 to 1000; 100 if it is left out")
	key := text("Idempotency-Key", "1 to 64 characters. The same key of the same account returns the same job, also after a restart, as long as that is in the history")
	return []route{
		{method: "GET", path: "openapi.json", id: "document", summary: "This document", open: true, returns: anything{}, serve: (*call).document},
		{method: "GET", path: "health/live", id: "live", summary: "The process lives", open: true, returns: Health{}, serve: (*call).live},
		{method: "GET", path: "health/ready", id: "ready", summary: "Statements are accepted: 503 while the server starts, drains, or cannot write", open: true, returns: Health{}, serve: (*call).ready},

		{method: "POST", path: "session", id: "logIn", summary: "Log in: sets a cookie, and returns the token for requests that change something", open: true, body: bodyOf[credentials](), returns: LoggedIn{}, serve: (*call).logIn},
		{method: "GET", path: "session", id: "whoAmI", summary: "The log-in of this request, and what its account may do", returns: LoggedIn{}, serve: (*call).whoAmI},
		{method: "DELETE", path: "session", id: "logOut", summary: "Log out", body: bodyOf[none](), returns: Done{}, serve: (*call).logOut},

		{method: "GET", path: "jobs", id: "listJobs", summary: "Index builds, the newest first", query: []parameter{
			{name: "state", kind: "string", doc: "active: those that have not ended, ended: the others, or a state as in the rows"}, limit,
			number("before", "only jobs with smaller numbers: the last one of the page before"),
		}, returns: jobs, serve: (*call).listJobs},
		{method: "POST", path: "jobs", id: "submit", summary: "Build indexes: answers when the job is in the queue. It goes on without this request", header: []parameter{key}, body: bodyOf[submission](), status: http.StatusAccepted, returns: Submitted{}, serve: (*call).submit},
		{method: "GET", path: "jobs/{id}", id: "getJob", summary: "One index build", returns: job, serve: (*call).getJob},
		{method: "PATCH", path: "jobs/{id}", id: "alterJob", summary: "Change the settings of a job: all that are named, or none", body: bodyOf[alteration](), returns: job, serve: (*call).alterJob},
		{method: "GET", path: "jobs/{id}/events", id: "followJob", summary: "Server-sent events: progress as it changes, end with the job, error. Data is the job", endless: true, returns: stream{}, serve: (*call).followJob},
		{method: "GET", path: "jobs/{id}/points", id: "jobPoints", summary: "Throughput and latency over time", returns: rowsOf{name: "point", table: "fastddl_ddl_points", list: true}, serve: rowsOfJob(selectPoints)},
		{method: "GET", path: "jobs/{id}/errors", id: "jobErrors", summary: "Rows that an index was not built for", returns: rowsOf{name: "rowError", table: "fastddl_ddl_errors", list: true}, serve: rowsOfJob(selectErrors)},
		{method: "GET", path: "jobs/{id}/commands", id: "jobCommands", summary: "What was asked of a job, and by whom", returns: rowsOf{name: "command", table: "fastddl_ddl_commands", list: true}, serve: rowsOfJob(selectCommands)},
		{method: "GET", path: "jobs/{id}/parts", id: "jobParts", summary: "Subtasks of a job that several nodes build, for accounts that may read mysql.fastddl_build_parts", returns: rowsOf{name: "part", columns: partColumns, list: true}, serve: partsOf},
		{method: "POST", path: "jobs/{id}/pause", id: "pauseJob", summary: "Pause a job", body: bodyOf[none](), returns: job, serve: command("ADMIN PAUSE DDL JOBS %?")},
		{method: "POST", path: "jobs/{id}/resume", id: "resumeJob", summary: "Resume a paused job", body: bodyOf[none](), returns: job, serve: command("ADMIN RESUME DDL JOBS %?")},
		{method: "POST", path: "jobs/{id}/cancel", id: "cancelJob", summary: "Cancel a job, and undo it", body: bodyOf[none](), returns: job, serve: command("ADMIN CANCEL DDL JOBS %?")},
		{method: "POST", path: "jobs/{id}/publish", id: "publishJob", summary: "Publish the indexes of a job whose publication is manual", body: bodyOf[none](), returns: job, serve: (*call).publishJob},

		{method: "POST", path: "explain", id: "explain", summary: "What a build would cost, and whether it fits", body: bodyOf[explanation](), returns: rowsOf{name: "estimate", columns: []string{"item VARCHAR(64)", "name VARCHAR(64)", "estimate VARCHAR(64)", "info TEXT"}, list: true}, serve: (*call).explain},

		{method: "GET", path: "settings", id: "getSettings", summary: "Global variables of builds", returns: []SettingValue{}, serve: (*call).getSettings},
		{method: "PATCH", path: "settings", id: "setSettings", summary: "Set global variables of builds", body: bodyOf[settingValues](), returns: []SettingValue{}, serve: (*call).setSettings},

		{method: "GET", path: "blockers", id: "listBlockers", summary: "Transactions that builds wait for", returns: rowsOf{name: "blocker", table: "fastddl_ddl_blockers", list: true}, serve: listOf(selectBlockers)},
		{method: "POST", path: "blockers/{connection}/end", id: "endBlocker", summary: "End the session of a transaction that a build waits for, by KILL", body: bodyOf[none](), returns: Done{}, serve: (*call).endBlocker},

		{method: "GET", path: "nodes", id: "listNodes", summary: "Servers of the cluster", returns: rowsOf{name: "node", columns: nodeColumns, list: true}, serve: listOf(selectNodes)},

		{method: "GET", path: "load", id: "load", summary: "Statements, their latency and index builds of this server over the last ten minutes, for accounts with PROCESS", returns: rowsOf{name: "load", table: "fastddl_server_load", list: true}, serve: listOf(selectLoad)},

		{method: "GET", path: "imports", id: "listImports", summary: "Imports of files", returns: rowsOf{name: "import", columns: importColumns, list: true}, serve: listOf("SHOW IMPORT JOBS")},
		{method: "POST", path: "imports", id: "startImport", summary: "Import files into an empty table, by IMPORT INTO ... WITH DETACHED", body: bodyOf[importing](), status: http.StatusAccepted, returns: rowsOf{name: "import", columns: importColumns}, serve: (*call).startImport},
		{method: "GET", path: "imports/{id}", id: "getImport", summary: "One import", returns: rowsOf{name: "import", columns: importColumns}, serve: (*call).getImport},
		{method: "POST", path: "imports/{id}/cancel", id: "cancelImport", summary: "Cancel an import", body: bodyOf[none](), returns: Done{}, serve: (*call).cancelImport},

		{method: "GET", path: "backups", id: "listBackups", summary: "Backups that run or have ended a short while ago", returns: rowsOf{name: "backup", columns: backupColumns, list: true}, serve: listOf("SHOW BACKUPS")},
		{method: "POST", path: "backups", id: "takeBackup", summary: "Take a backup, and answer when it is there. It ends with this request", endless: true, body: bodyOf[backingUp](), returns: rowsOf{name: "backupTaken", columns: []string{"destination TEXT", "size BIGINT", "backupts BIGINT", "queue_time TIMESTAMP", "execution_time TIMESTAMP"}}, serve: (*call).takeBackup},
	}
}

// Done is the answer of a request that returns nothing.
type Done struct {
	Done bool `json:"done" doc:"true"`
}

// credentials log in.
type credentials struct {
	User     string `json:"user" doc:"name of an account" need:"yes"`
	Password string `json:"password" doc:"its password"`
}

// LoggedIn describes a log-in to its client.
type LoggedIn struct {
	User    string  `json:"user" doc:"the account, as user@host"`
	Token   string  `json:"token,omitempty" doc:"what requests by the cookie that change something send as X-Fastddl-Token; none with Basic"`
	Version string  `json:"version" doc:"of the server"`
	Grants  []Grant `json:"grants" doc:"what the account may do now; each statement looks it up itself"`
}

// jobSettings are settings of one build. What is left out is as the global variables say.
type jobSettings struct {
	Engine    *string `json:"engine,omitempty" doc:"fastddl or tidb (fastddl_ddl_engine)"`
	Thread    *int64  `json:"thread,omitempty" doc:"workers (tidb_ddl_reorg_worker_cnt)"`
	BatchSize *int64  `json:"batch_size,omitempty" doc:"rows (tidb_ddl_reorg_batch_size)"`
	Priority  *string `json:"priority,omitempty" doc:"PRIORITY_LOW, PRIORITY_NORMAL or PRIORITY_HIGH (tidb_ddl_reorg_priority)"`
	Nodes     *int64  `json:"nodes,omitempty" doc:"nodes that build one index (tidb_max_dist_task_nodes)"`
	Window    *string `json:"window,omitempty" doc:"when the build works (fastddl_ddl_window)"`
	MaxHold   *string `json:"max_hold,omitempty" doc:"how long a parked build holds garbage collection (fastddl_ddl_max_hold)"`
	Publish   *string `json:"publish,omitempty" doc:"auto or manual (fastddl_ddl_publish)"`
	Verify    *string `json:"verify,omitempty" doc:"auto or full (fastddl_ddl_verify)"`
	Preflight *string `json:"preflight,omitempty" doc:"off, warn or enforce (fastddl_ddl_preflight)"`
}

// explanation asks what a build would cost.
type explanation struct {
	Schema    string      `json:"schema" doc:"the current database of the statement"`
	Statement string      `json:"statement" doc:"CREATE INDEX, or ALTER TABLE that adds an index" need:"yes"`
	Settings  jobSettings `json:"settings" doc:"settings of the build"`
}

// submission asks for a build.
type submission = explanation

// Submitted is a job that was submitted.
type Submitted struct {
	JobID    int64     `json:"job_id" doc:"number of the job; 0 if there was nothing to do"`
	Job      Row       `json:"job" doc:"the job, as GET jobs/{id} returns it; null if TiDB builds the index, or there was nothing to do"`
	Existing bool      `json:"existing" doc:"the key was that of an earlier request, whose job this is"`
	Warnings []Warning `json:"warnings" doc:"of a statement that has ended already"`
}

// alteration changes settings of a job.
type alteration struct {
	Thread        *int64  `json:"thread,omitempty" doc:"workers"`
	BatchSize     *int64  `json:"batch_size,omitempty" doc:"rows"`
	MaxWriteSpeed *string `json:"max_write_speed,omitempty" doc:"bytes per second, such as 20MiB; 0 is no limit"`
	Window        *string `json:"window,omitempty" doc:"when the build works; empty is always"`
	MaxHold       *string `json:"max_hold,omitempty" doc:"how long it holds garbage collection when it is parked"`
	Publish       *string `json:"publish,omitempty" doc:"auto, manual, or now"`
}

// Setting is a global variable of builds.
type Setting struct {
	Name, Kind, Default, Doc string
	Values                   []string
}

// SettingValue is a global variable with its value.
type SettingValue struct {
	Name    string   `json:"name" doc:"name of the variable"`
	Value   string   `json:"value" doc:"its global value"`
	Default string   `json:"default" doc:"the value that it has first"`
	Kind    string   `json:"kind" doc:"what it takes: bool, enum, int, bytes, duration or text"`
	Values  []string `json:"values,omitempty" doc:"those of an enum"`
	Doc     string   `json:"doc" doc:"what it does"`
}

// settingValues are values by name.
type settingValues map[string]*string

// importing asks for an import.
type importing struct {
	Schema  string            `json:"schema" doc:"database of the table" need:"yes"`
	Table   string            `json:"table" doc:"an empty table" need:"yes"`
	Source  string            `json:"source" doc:"files: a path or pattern on the server, or a URL of a storage" need:"yes"`
	Format  string            `json:"format,omitempty" doc:"csv, sql or parquet"`
	Options map[string]string `json:"options,omitempty" doc:"options of IMPORT INTO by name, such as skip_rows; empty for those without a value"`
}

// backingUp asks for a backup.
type backingUp struct {
	Destination string `json:"destination" doc:"a new folder, as local:///backups/monday" need:"yes"`
	RateLimit   int64  `json:"rate_limit_mb,omitempty" doc:"megabytes a second at most; 0 is no limit"`
}
