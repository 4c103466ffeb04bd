package status

import (
	"time"

	"fastddl/ddl/session"
)

// commandsTable has what users have asked of jobs by ADMIN statements.
var commandsTable = reportTable{
	name: "fastddl_ddl_commands", key: "job_id, number",
	columns: []string{
		"job_id BIGINT NOT NULL", "number BIGINT NOT NULL",
		"db_name VARCHAR(64)", "table_name VARCHAR(64)", "time TIMESTAMP(6) NULL",
		"user_name VARCHAR(64)", "host VARCHAR(255)", "conn_id BIGINT UNSIGNED", "program VARCHAR(255)",
		"statement VARCHAR(1024)", "outcome VARCHAR(1024)",
	},
}

const (
	// maxCommands is how many commands a job's history keeps: the newest ones.
	maxCommands = 1000
	// maxCommandText is the number of bytes of a statement, a program's name or an outcome that are kept.
	maxCommandText = 1024
	maxProgramText = 255
	maxUserText    = 64
)

// CommandDone is the outcome of a command that a job does.
const CommandDone = "done"

// Command is what a user has asked of a job.
type Command struct {
	JobID int64
	// DB and Table are names in lower case.
	DB, Table          string
	Time               time.Time
	User, Host         string
	ConnID             uint64
	Program, Statement string
	// Outcome is CommandDone, or why the job does not do it.
	Outcome string
}

// ReportCommand adds a command to the history of its job.
func ReportCommand(t *session.Txn, c Command) error {
	rows, err := t.Query(`SELECT COALESCE(MAX(number), 0) FROM mysql.fastddl_ddl_commands WHERE job_id = %?`, c.JobID)
	if err != nil {
		return err
	}
	number := int64(1)
	if len(rows) > 0 {
		number += rows[0].GetInt64(0)
	}
	if number > maxCommands {
		if err := t.Exec(`DELETE FROM mysql.fastddl_ddl_commands WHERE job_id = %? AND number <= %?`, c.JobID, number-maxCommands); err != nil {
			return err
		}
	}
	// Two transactions with one number are in conflict, and the later one begins again.
	return t.Exec(commandsTable.replace(), c.JobID, number, c.DB, c.Table, session.TimeOrNull(c.Time, t.Session.GetSessionVars().Location()),
		session.Shortened(c.User, maxUserText), session.Shortened(c.Host, maxProgramText), c.ConnID, session.OrNull(session.Shortened(c.Program, maxProgramText)),
		session.Shortened(c.Statement, maxCommandText), session.Shortened(c.Outcome, maxCommandText))
}
