package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/builder"
)

func init() { collate.SetNewCollationEnabledForTest(true) }

var testDB = &model.DBInfo{Name: pmodel.NewCIStr("test"), Charset: "utf8mb4", Collate: "utf8mb4_bin"}

func parse(t testing.TB, sql string) ast.StmtNode {
	t.Helper()
	stmt, err := parser.New().ParseOneStmt(sql, "", "")
	require.NoError(t, err, sql)
	return stmt
}

func tableOf(t testing.TB, sql string) *model.TableInfo {
	t.Helper()
	tbl, err := builder.NewTable(&builder.Env{ClusteredIndex: true}, parse(t, sql).(*ast.CreateTableStmt), testDB)
	require.NoError(t, err)
	tbl.ID = 1
	return tbl
}

// changesOf reads the clauses of an ALTER TABLE, without the checks of package
// ddl.
func changesOf(t testing.TB, tbl *model.TableInfo, sql string) []Change {
	t.Helper()
	var out []Change
	for _, spec := range parse(t, "alter table t "+sql).(*ast.AlterTableStmt).Specs {
		out = append(out, changeOf(t, tbl, spec))
	}
	return out
}

func changeOf(t testing.TB, tbl *model.TableInfo, spec *ast.AlterTableSpec) Change {
	env := &builder.Env{SQLMode: mysql.ModeStrictTransTables}
	switch spec.Tp {
	case ast.AlterTableAddColumns:
		col, err := builder.NewColumn(env, spec.NewColumns[0], tbl, testDB, false)
		require.NoError(t, err)
		c := Change{Type: model.ActionAddColumn, Column: col, IfExists: spec.IfNotExists}
		c.Position.First = spec.Position.Tp == ast.ColumnPositionFirst
		if spec.Position.Tp == ast.ColumnPositionAfter {
			c.Position.After = spec.Position.RelativeColumn.Name.O
		}
		return c
	case ast.AlterTableAddConstraint:
		c := spec.Constraint
		if c.Tp == ast.ConstraintPrimaryKey {
			idx, err := builder.NewPrimaryKeySpec(env, c.Keys, c.Option)
			require.NoError(t, err)
			return Change{Type: model.ActionAddPrimaryKey, Index: idx}
		}
		idx, err := builder.NewIndexSpec(env, c.Name, c.Keys, c.Option)
		require.NoError(t, err)
		return Change{Type: model.ActionAddIndex, Index: idx, IfExists: c.IfNotExists}
	case ast.AlterTableDropColumn:
		return Change{Type: model.ActionDropColumn, Name: spec.OldColumnName.Name.O, IfExists: spec.IfExists}
	case ast.AlterTableDropIndex:
		return Change{Type: model.ActionDropIndex, Name: spec.Name, IfExists: spec.IfExists}
	case ast.AlterTableDropPrimaryKey:
		return Change{Type: model.ActionDropPrimaryKey, Name: "PRIMARY"}
	case ast.AlterTableRenameIndex:
		return Change{Type: model.ActionRenameIndex, Name: spec.FromKey.O, NewName: spec.ToKey.O}
	case ast.AlterTableIndexInvisible:
		return Change{
			Type: model.ActionAlterIndexVisibility, Name: spec.IndexName.O,
			Invisible: spec.Visibility == ast.IndexVisibilityInvisible,
		}
	case ast.AlterTableOption:
		if spec.Options[0].Tp == ast.TableOptionAutoIncrement {
			return Change{Type: model.ActionRebaseAutoID, AutoIncID: int64(spec.Options[0].UintValue)}
		}
		return Change{Type: model.ActionModifyTableComment, Comment: spec.Options[0].StrValue}
	}
	require.FailNow(t, "unknown clause")
	return Change{}
}

func printTable(tbl *model.TableInfo) string {
	var out strings.Builder
	for i, col := range tbl.Columns {
		if col.Offset != i {
			fmt.Fprintf(&out, "OFFSET %d!=%d ", col.Offset, i)
		}
		fmt.Fprintf(&out, "%s", col.Name.O)
		if col.State != model.StatePublic {
			fmt.Fprintf(&out, "(%s)", col.State)
		}
		for _, f := range []struct {
			flag uint
			name string
		}{{mysql.PriKeyFlag, "pri"}, {mysql.UniqueKeyFlag, "uni"}, {mysql.MultipleKeyFlag, "mul"}, {mysql.PreventNullInsertFlag, "no_new_null"}} {
			if col.GetFlag()&f.flag != 0 {
				fmt.Fprintf(&out, "*%s", f.name)
			}
		}
		switch notNull, primary := mysql.HasNotNullFlag(col.GetFlag()), mysql.HasPriKeyFlag(col.GetFlag()); {
		case notNull && !primary:
			out.WriteString("*not_null")
		case primary && !notNull:
			out.WriteString(" NULLABLE!")
		}
		out.WriteString(" ")
	}
	for _, idx := range tbl.Indices {
		fmt.Fprintf(&out, "| %s#%d", idx.Name.O, idx.ID)
		if idx.State != model.StatePublic {
			fmt.Fprintf(&out, "(%s)", idx.State)
		}
		if idx.Invisible {
			out.WriteString("(invisible)")
		}
		for _, ic := range idx.Columns {
			fmt.Fprintf(&out, " %s", ic.Name.O)
			if tbl.Columns[ic.Offset].Name.L != ic.Name.L {
				fmt.Fprintf(&out, "=OFFSET OF %s!", tbl.Columns[ic.Offset].Name.O)
			}
		}
		out.WriteString(" ")
	}
	if tbl.Comment != "" {
		fmt.Fprintf(&out, "| comment %q", tbl.Comment)
	}
	return strings.TrimSpace(out.String())
}

func errorText(err error) string {
	if te, ok := builder.AsTerror(err); ok {
		return fmt.Sprintf("%d %s", te.Code(), te.GetMsg())
	}
	return err.Error()
}

// story runs a job as package ddl does, with actions that always succeed unless
// the transcript says otherwise.
type story struct {
	t       testing.TB
	tbl     *model.TableInfo
	machine *Machine
	version int64
}

// act does the next action and prints it with what it makes of the table.
func (s *story) act(fail error) string {
	s.machine.Start()
	act, to := s.machine.Next()
	line := string(act)
	if act != ActWaitLock && act != ActSleep && act != ActPark {
		line += " " + string(to)
	}
	if fail != nil {
		retry := s.machine.Failed(fail, 2)
		return fmt.Sprintf("%s: failed, retry=%v, %s\n", line, retry, s.machine.Job().State)
	}
	switch act {
	case ActWaitLock:
		s.machine.Waited()
		return line + "\n"
	case ActSleep:
		line = fmt.Sprintf("%s %s", line, s.machine.BackoffTime())
		s.machine.Slept()
		return line + "\n"
	case ActPark:
		return line + "\n"
	}
	from := s.machine.Job().Step
	after := s.machine.After(to)
	if act == ActChangeSchema {
		tbl := s.tbl.Clone()
		if err := after.Apply(from, tbl); err != nil {
			s.machine.Failed(err, 2)
			return fmt.Sprintf("%s: %s\n", line, errorText(err))
		}
		s.version++
		after.SchemaVersion = s.version
		s.tbl = tbl
		line += "\n    " + printTable(tbl)
	}
	// The record is durable: what is not in it is lost.
	data, err := json.Marshal(after)
	require.NoError(s.t, err)
	back := new(Job)
	require.NoError(s.t, json.Unmarshal(data, back))
	s.machine.Reached(back)
	if act == ActFinish {
		line += fmt.Sprintf(": %s, schema state %s", back.State, back.SchemaState())
		if back.Error != nil {
			line += fmt.Sprintf(", error %d %s", back.Error.Code, back.Error.Message)
		}
	}
	return line + "\n"
}

func (s *story) ended() bool { return s.machine.Job().Ended() }

// TestJob runs the transcripts in testdata. Commands:
//
//	table                a CREATE TABLE
//	alter                the clauses of an ALTER TABLE become a job
//	bind                 clauses, one ALTER a line, and what binding them says
//	drop-table           a DROP TABLE job
//	step [n=N]           the next N actions (1) succeed
//	fail [permanent]     the next action fails
//	request cancel|pause|resume
//	restart              the process restarts
//	run                  actions succeed until the job has ended or is paused
func TestJob(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			switch d.Cmd {
			case "table":
				s.tbl = tableOf(t, d.Input)
				return printTable(s.tbl) + "\n"
			case "bind":
				return s.bind(d.Input)
			case "alter":
				s.start(&Job{Type: model.ActionMultiSchemaChange, Changes: changesOf(t, s.tbl, d.Input)})
				return ""
			case "drop-table":
				s.start(&Job{Type: model.ActionDropTable, DropTables: []TableRef{{ID: 1}}})
				return ""
			case "step":
				n := 1
				d.MaybeScanArgs(t, "n", &n)
				var out strings.Builder
				for range n {
					out.WriteString(s.act(nil))
				}
				return out.String()
			case "fail":
				err := errors.New("no luck")
				if d.HasArg("permanent") {
					err = Permanent(err)
				}
				return s.act(err)
			case "request":
				return s.request(d.CmdArgs[0].Key)
			case "restart":
				s.machine = NewMachine(s.machine.Job())
				return fmt.Sprintf("at step %q, %s\n", s.machine.Job().Step, s.machine.Job().State)
			case "run":
				return s.run()
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func (s *story) start(j *Job) {
	j.ID, j.State = 1, model.JobStateQueueing
	s.machine = NewMachine(j)
}

func (s *story) run() string {
	var out strings.Builder
	for range 50 {
		line := s.act(nil)
		out.WriteString(line)
		if s.ended() || strings.HasPrefix(line, string(ActPark)) {
			return out.String()
		}
	}
	return out.String() + "does not end\n"
}

func (s *story) request(what string) string {
	r := map[string]Request{"cancel": RequestCancel, "pause": RequestPause, "resume": RequestNone}[what]
	after := s.machine.After(s.machine.Job().Step)
	if err := after.SetRequest(r); err != nil {
		return errorText(err) + "\n"
	}
	s.machine.Reached(after)
	return after.ShownState().String() + "\n"
}

func (s *story) bind(input string) string {
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		tbl := s.tbl.Clone()
		bound, _, notes, err := Bind(tbl, changesOf(s.t, s.tbl, line))
		if err != nil {
			fmt.Fprintln(&out, errorText(err))
			continue
		}
		fmt.Fprintf(&out, "%d changes", len(bound))
		for _, n := range notes {
			fmt.Fprintf(&out, ", note %s", errorText(n))
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

func TestRunnable(t *testing.T) {
	mk := func(id int64, objects ...Object) *Job { return &Job{ID: id, Objects: objects} }
	for _, tc := range []struct {
		name  string
		queue []*Job
		want  []int64
	}{
		{"other tables", []*Job{mk(1, Object{"d", "a", 1}), mk(2, Object{"d", "b", 2})}, []int64{1, 2}},
		{"same table in order", []*Job{mk(1, Object{"d", "a", 1}), mk(2, Object{"D", "A", 1}), mk(3, Object{"d", "b", 2})}, []int64{1, 3}},
		{"database excludes its tables", []*Job{mk(1, Object{"d", "a", 1}), mk(2, Object{"d", "", 0}), mk(3, Object{"d", "b", 2}), mk(4, Object{"e", "a", 4})}, []int64{1, 4}},
		{"a renamed table is the same", []*Job{mk(1, Object{"d", "a", 1}, Object{"d", "b", 0}), mk(2, Object{"d", "c", 1}), mk(3, Object{"d", "b", 0})}, []int64{1}},
		{"a waiting job keeps its place", []*Job{mk(1, Object{"d", "a", 1}), mk(2, Object{"d", "a", 1}, Object{"d", "b", 2}), mk(3, Object{"d", "b", 2})}, []int64{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []int64
			for _, j := range Runnable(tc.queue) {
				got = append(got, j.ID)
			}
			require.Equal(t, tc.want, got)
		})
	}
	cancelled := mk(2, Object{"d", "a", 1})
	cancelled.Request = RequestCancel
	require.Len(t, Runnable([]*Job{mk(1, Object{"d", "a", 1}), cancelled}), 2, "a job that was cancelled need not wait")
	cancelled.Step = StepWriteOnly
	require.Len(t, Runnable([]*Job{mk(1, Object{"d", "a", 1}), cancelled}), 1)
}

func TestBackoff(t *testing.T) {
	require.Equal(t, 20*time.Millisecond, Backoff(1))
	require.Equal(t, 40*time.Millisecond, Backoff(2))
	require.Equal(t, 5*time.Second, Backoff(10))
	require.Equal(t, 5*time.Second, Backoff(1<<40))
}

func TestErrors(t *testing.T) {
	require.False(t, IsPermanent(errors.New("x")))
	require.True(t, IsPermanent(fmt.Errorf("wrapped: %w", Permanent(errors.New("x")))))
	coded := builder.ErrTableExists.FastGenByArgs("t")
	require.True(t, IsPermanent(fmt.Errorf("wrapped: %w", coded)))
	require.Equal(t, &Error{Code: 1050, Message: "Table 't' already exists"}, NewError(fmt.Errorf("wrapped: %w", coded)))
	require.Equal(t, &Error{Code: 1105, Message: "x"}, NewError(errors.New("x")))
	require.Equal(t, "42S01", (&Error{Code: 1050}).SQLState())
	require.Equal(t, "HY000", (&Error{Code: 1105}).SQLState())
}

// Rows that are written without a dropped column show its zero to transactions
// that still see the column.
func TestOriginDefaultOfDroppedColumn(t *testing.T) {
	tbl := tableOf(t, "create table t (a int primary key, b varchar(5) not null, c int)")
	j := &Job{Type: model.ActionDropColumn, Changes: changesOf(t, tbl, "drop column b"), Step: StepSwitched}
	require.NoError(t, j.Apply(StepStart, tbl))
	b := model.FindColumnInfo(tbl.Columns, "b")
	require.Equal(t, model.StateWriteOnly, b.State)
	require.Equal(t, "", b.GetOriginDefaultValue())
}
