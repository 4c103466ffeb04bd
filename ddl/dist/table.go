package dist

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/backfill/execution"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
)

// CreateSubtasks makes the table of the subtasks of divided builds. What decides is the first line of
// columns; the second is for people, and as of about a second ago; the third is what
// package backfill keeps.
const CreateSubtasks = `CREATE TABLE IF NOT EXISTS mysql.fastddl_build_parts (
		job_id BIGINT NOT NULL, part BIGINT NOT NULL, snapshot_ts BIGINT UNSIGNED NOT NULL, round BIGINT NOT NULL,
		state VARCHAR(16) NOT NULL, wanted BOOL NOT NULL, holder VARCHAR(256) NOT NULL, hold_epoch BIGINT NOT NULL, failures BIGINT NOT NULL,
		stage VARCHAR(32), wait_reason VARCHAR(1024), row_count BIGINT, imported_rows BIGINT, percent DOUBLE, rows_per_second DOUBLE,
		workers BIGINT, error TEXT, updated TIMESTAMP(6) NULL,
		spec LONGBLOB NOT NULL, checkpoint LONGBLOB, result LONGBLOB,
		PRIMARY KEY (job_id, part) CLUSTERED)`

// subtaskColumns are those of decodeSubtask. The result of a subtask may be large, and lies in its row: it
// is read when all are there, and rows of subtasks that are done are not read again.
const subtaskColumns = `part, snapshot_ts, round, state, wanted, holder, hold_epoch, failures, row_count, imported_rows, percent, error,
	IF(state = 'done', NULL, result)`

// storedSubtask is a subtask of a job as its row says, without what its holder needs to build it.
type storedSubtask struct {
	Subtask
	snapshotTS uint64
	round      int
	// rows are read, and the entries of imported in the store; percent of the subtask is
	// read.
	rows, imported int64
	percent        float64
	// err is what an attempt has failed with last.
	err string
	// outcome is the error of a subtask that has failed, or what is known of attempts at one that is not done.
	outcome []byte
}

func decodeSubtask(row chunk.Row) storedSubtask {
	p := storedSubtask{
		Subtask: Subtask{
			Number: row.GetInt64(0), State: State(row.GetString(3)), Wanted: row.GetInt64(4) != 0,
			Holder: row.GetString(5), Epoch: row.GetInt64(6), Failures: row.GetInt64(7),
		},
		snapshotTS: row.GetUint64(1), round: int(row.GetInt64(2)), err: session.TextAt(row, 11),
	}
	if !row.IsNull(8) {
		p.rows, p.imported, p.percent = row.GetInt64(8), row.GetInt64(9), row.GetFloat64(10)
	}
	if !row.IsNull(12) {
		p.outcome = bytes.Clone(row.GetBytes(12))
		p.Wrong = wasWrong(p.State, p.outcome)
	}
	return p
}

// readSubtasks returns the subtasks of a job, in order.
func readSubtasks(t *session.Txn, jobID int64) ([]storedSubtask, error) {
	rows, err := t.Query(`SELECT `+subtaskColumns+` FROM mysql.fastddl_build_parts WHERE job_id = %? ORDER BY part`, jobID)
	if err != nil {
		return nil, err
	}
	return decodeSubtasks(rows), nil
}

// readSubtask returns one subtask of a job, nil if there is none.
func readSubtask(t *session.Txn, jobID, number int64) (*storedSubtask, error) {
	rows, err := t.Query(`SELECT `+subtaskColumns+` FROM mysql.fastddl_build_parts WHERE job_id = %? AND part = %?`, jobID, number)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	p := decodeSubtask(rows[0])
	return &p, nil
}

// loadSubtasks is readSubtasks outside a transaction.
func loadSubtasks(ctx context.Context, s *session.Pool, jobID int64) ([]storedSubtask, error) {
	rows, err := s.Query(ctx, `SELECT `+subtaskColumns+` FROM mysql.fastddl_build_parts WHERE job_id = %? ORDER BY part`, jobID)
	if err != nil {
		return nil, err
	}
	return decodeSubtasks(rows), nil
}

// refreshSubtasks loads those of subtasks that were not done, into their places.
func refreshSubtasks(ctx context.Context, s *session.Pool, jobID int64, subtasks []storedSubtask) error {
	var open []string
	for i := range subtasks {
		if subtasks[i].State != Done {
			open = append(open, strconv.FormatInt(subtasks[i].Number, 10))
		}
	}
	if len(open) == 0 {
		return nil
	}
	rows, err := s.Query(ctx, `SELECT `+subtaskColumns+` FROM mysql.fastddl_build_parts WHERE job_id = %? AND part IN (`+strings.Join(open, ", ")+`) ORDER BY part`, jobID)
	if err != nil {
		return err
	}
	if len(rows) != len(open) { // another owner has subtasks of its own
		return records.ErrLost
	}
	now := decodeSubtasks(rows)
	for i := range subtasks {
		if subtasks[i].State != Done {
			subtasks[i], now = now[0], now[1:]
		}
	}
	return nil
}

func decodeSubtasks(rows []chunk.Row) []storedSubtask {
	subtasks := make([]storedSubtask, len(rows))
	for i, row := range rows {
		subtasks[i] = decodeSubtask(row)
	}
	return subtasks
}

// bare returns the subtasks without the progress and errors of their rows.
func bare(subtasks []storedSubtask) []Subtask {
	out := make([]Subtask, len(subtasks))
	for i := range subtasks {
		out[i] = subtasks[i].Subtask
	}
	return out
}

// setHolder writes the node that holds a subtask.
func setHolder(t *session.Txn, jobID int64, p Subtask) error {
	return t.Exec(`UPDATE mysql.fastddl_build_parts SET state = %?, holder = %?, hold_epoch = %?, failures = %?,
		stage = NULL, wait_reason = NULL, rows_per_second = NULL, workers = NULL, updated = NOW(6) WHERE job_id = %? AND part = %?`,
		string(p.State), p.Holder, p.Epoch, p.Failures, jobID, p.Number)
}

// insertSubtasks cuts the work into n subtasks at most, wanted and open, for a job that
// has none.
func insertSubtasks(t *session.Txn, jobID int64, w execution.Work, n int) error {
	for i, spec := range w.Cut(n) {
		data, err := json.Marshal(spec)
		if err != nil {
			return fmt.Errorf("encode part: %w", err)
		}
		if err := t.Exec(`INSERT INTO mysql.fastddl_build_parts (job_id, part, snapshot_ts, round, state, wanted, holder, hold_epoch, failures, spec)
			VALUES (%?, %?, %?, %?, %?, TRUE, '', 0, 0, %?)`, jobID, i, w.TS, w.Round, string(Open), data); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSubtasks removes the subtasks of a job. No node may hold one.
func DeleteSubtasks(t *session.Txn, jobID int64) error {
	return t.Exec(`DELETE FROM mysql.fastddl_build_parts WHERE job_id = %?`, jobID)
}

// wantSubtasks has the subtasks of a job built, those that are not wanted yet.
func wantSubtasks(t *session.Txn, jobID int64, subtasks []storedSubtask) error {
	if !slices.ContainsFunc(subtasks, func(p storedSubtask) bool { return !p.Wanted }) {
		return nil
	}
	return t.Exec(`UPDATE mysql.fastddl_build_parts SET wanted = TRUE WHERE job_id = %? AND NOT wanted`, jobID)
}

// loadResults returns the results of the subtasks of some work, of which all are done.
func loadResults(ctx context.Context, s *session.Pool, jobID int64, w execution.Work, subtasks int) ([]execution.SubtaskResult, error) {
	rows, err := s.Query(ctx, `SELECT part, result FROM mysql.fastddl_build_parts WHERE job_id = %? AND snapshot_ts = %? AND round = %? AND state = %?
		ORDER BY part`, jobID, w.TS, w.Round, string(Done))
	if err != nil {
		return nil, err
	}
	if len(rows) != subtasks { // another owner has subtasks of its own
		return nil, records.ErrLost
	}
	results := make([]execution.SubtaskResult, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row.GetBytes(1), &results[i]); err != nil {
			return nil, fmt.Errorf("decode the result of part %d: %w", row.GetInt64(0), err)
		}
	}
	return results, nil
}
