package ctl

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

func TestRunTakesStatementsThatChangeADefinition(t *testing.T) {
	for statement, want := range map[string]string{
		"ALTER TABLE t ADD INDEX k (k)":                    "",
		"create unique index `a;b` on t (k);":              "",
		"DROP TABLE t":                                     "",
		"what TiDB's parser of this version does not know": "",
		"SELECT 1": "statements that change a definition",
		"ALTER TABLE t ADD INDEX a (a); ALTER TABLE t ADD INDEX b(b)": "these are 2",
		"-- nothing": "these are 0",
	} {
		err := (&RunOptions{Statement: statement}).Check()
		if want == "" {
			require.NoError(t, err, statement)
		} else {
			require.ErrorContains(t, err, want, statement)
		}
	}
	require.True(t, buildsIndex("ALTER TABLE t ADD COLUMN c INT, ADD UNIQUE (c)"))
	require.False(t, buildsIndex("ALTER TABLE t ADD COLUMN c INT"))
}

// TestExitCodesSayWhatHappened: they are documented, and scripts go by them.
func TestExitCodesSayWhatHappened(t *testing.T) {
	for o, want := range map[outcome]int{outcomeDone: 0, outcomeReady: 0, outcomeFailed: 1, outcomeCancelled: 3, outcomePaused: 4, outcomeLeft: 4, "": 1} {
		require.Equal(t, want, int(o.code()), o)
	}
	require.Equal(t, Done, CodeOf(nil))
	require.Equal(t, Failed, CodeOf(errors.New("x")))
	require.Equal(t, Usage, CodeOf(fmt.Errorf("wrapped: %w", UsageError(errors.New("x")))))
	require.NoError(t, UsageError(nil))
}

// TestReport: the last line says how to go on.
func TestReport(t *testing.T) {
	job := running112()
	job.IndexBytes, job.Verified = sql.NullInt64{Int64: 36 << 20, Valid: true}, "sample"
	duplicates := &mysql.MySQLError{Number: 1062, SQLState: [5]byte{'2', '3', '0', '0', '0'}, Message: "Duplicate entry (rows listed in mysql.fastddl_ddl_errors, job 112)"}
	for _, tc := range []struct {
		v        verdict
		job      *Job
		out, err string
		code     ExitCode
	}{
		{verdict{outcome: outcomeDone}, job, "warning: w\ndone in 4.5 s: 1.2M rows, index 36.0 MiB, verified: sample\n", "", Done},
		{verdict{outcome: outcomeDone}, nil, "warning: w\ndone in 4.5 s\n", "", Done},
		{verdict{outcome: outcomeReady}, job, "built and verified in 4.5 s, not public yet: fastddl ctl publish 112\n", "", Done},
		{verdict{outcome: outcomeLeft}, job, "warning: w\njob 112 goes on at the server: fastddl ctl watch 112\n", "exit code 4", Left},
		{verdict{outcome: outcomePaused}, job, "warning: w\njob 112 is paused: fastddl ctl resume 112, then fastddl ctl watch 112\n", "exit code 4", Left},
		{verdict{outcome: outcomeCancelled}, job, "warning: w\njob 112 is cancelled: nothing is left of it\n", "exit code 3", Cancelled},
		{verdict{outcomeFailed, duplicates}, job, "warning: w\n", "ERROR 1062 (23000): Duplicate entry (rows listed in mysql.fastddl_ddl_errors, job 112); fastddl ctl history 112 shows the rows", Failed},
	} {
		var out bytes.Buffer
		c := &Client{Output: Output{Out: &out}}
		err := c.report(tc.v, tc.job, 4500*time.Millisecond, []string{"w"})
		require.Equal(t, tc.out, out.String())
		require.Equal(t, tc.code, CodeOf(err))
		if tc.err != "" {
			require.EqualError(t, err, tc.err)
		}
	}
}

func TestFiguresForPeople(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 7: "7", 999: "999", 1000: "1.0K", 1234: "1.2K", 99_400: "99.4K", 123_456: "123K", 2_000_000: "2.0M", 5e9: "5.0G", 5e12: "5.0T"} {
		require.Equal(t, want, count(n))
	}
	for n, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 36 << 20: "36.0 MiB", 5 << 40: "5.0 TiB"} {
		require.Equal(t, want, size(n))
	}
	for s, want := range map[float64]string{0.04: "0.0 s", 4.5: "4.5 s", 42: "42 s", 190: "3m10s", 7500: "2h5m", -1: "?"} {
		require.Equal(t, want, span(s))
	}
}

// TestJSONKeepsTypes: numbers are numbers, documents are documents, and text is never taken for one.
func TestJSONKeepsTypes(t *testing.T) {
	cell := func(text string) sql.NullString { return sql.NullString{String: text, Valid: true} }
	r := &result{
		columns: []string{"JOB_ID", "percent", "stages", "name", "none", "odd"},
		types:   []string{"UNSIGNED BIGINT", "DOUBLE", "JSON", "VARCHAR", "DOUBLE", "JSON"},
		rows:    [][]sql.NullString{{cell("112"), cell("4.5"), cell(`[{"a":1}]`), cell("7\x1b"), {}, cell("{")}},
	}
	var out bytes.Buffer
	require.NoError(t, writeJSON(&out, r.objects()))
	require.Equal(t, `[{"job_id":112,"percent":4.5,"stages":[{"a":1}],"name":"7\u001b","none":null,"odd":"{"}]`+"\n", out.String())
}
