package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/errno"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/session"
	"github.com/pingcap/tidb/pkg/testkit"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv/embedded"
)

const (
	// defaultStatements is a slice, longStatements what FASTDDL_LONG runs; FASTDDL_COMPARE_STATEMENTS asks for more.
	defaultStatements, longStatements = 2000, 100_000
	// perSchema is how many statements two tables live for, and perLarge two large ones, which every largeEvery-th are.
	perSchema  = 500
	perLarge   = 250
	largeEvery = 3
)

func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

// openEmbedded opens TiDB's SQL layer over a store in a new folder.
func openEmbedded(t *testing.T) tidbkv.Storage {
	store, err := embedded.Open(t.TempDir(), embedded.Options{})
	require.NoError(t, err)
	dom, err := session.BootstrapSession(store.Storage())
	require.NoError(t, err)
	dom.InfoSyncer().SetSessionManager(&testkit.MockSessionManager{})
	t.Cleanup(func() {
		dom.Close()
		require.NoError(t, store.Close())
	})
	return store.Storage()
}

func TestEmbeddedAnswersLikeUnistore(t *testing.T) {
	unistore := testkit.CreateMockStore(t) // sets leases for tests, so it comes first
	ours := openEmbedded(t)
	total := number(t, "FASTDDL_COMPARE_STATEMENTS", defaultStatements)
	if randtest.Long() {
		total = max(total, longStatements)
	}
	c := newComparison(t, ours, unistore)
	start := time.Now()
	if testing.Short() {
		total = min(total, perSchema)
	}
	for c.statements < total && !t.Failed() {
		large := c.schemas%largeEvery == 1
		statements := uint64(perSchema)
		if large {
			statements = perLarge
		}
		c.schema(min(statements, total-c.statements), large)
	}
	if t.Failed() {
		return
	}
	t.Logf("%d statements in %s, %d of them failed alike and %d on one side by a value it need not evaluate",
		c.statements, time.Since(start).Round(time.Second), c.failed, c.needless)
	require.Greater(t, c.statements-c.failed, total/2, "most statements are valid")
	require.LessOrEqual(t, c.needless, max(10, total/1000), "only a value that need not be evaluated may fail on one side")
}

// side is one of the two stores, with two sessions.
type side struct {
	name     string
	sessions [2]*testkit.TestKit
}

type comparison struct {
	t          *testing.T
	rng        *rand.Rand
	sides      []*side
	statements uint64
	failed     uint64
	// needless counts statements that fail in one store only, by a value that it need not evaluate.
	needless uint64
	// diverged is set where such a statement has changed rows in the other store.
	diverged bool
	schemas  int
	// history are the last statements, for a failure.
	history []string
}

func newComparison(t *testing.T, ours, unistore tidbkv.Storage) *comparison {
	c := &comparison{t: t, rng: randtest.Rand(t)}
	for _, s := range []struct {
		name  string
		store tidbkv.Storage
	}{{"embedded", ours}, {"unistore", unistore}} {
		kits := &side{name: s.name}
		for i := range kits.sessions {
			kits.sessions[i] = testkit.NewTestKitWithSession(t, s.store, testkit.NewSession(t, s.store))
			kits.sessions[i].MustExec("use test")
			kits.sessions[i].MustExec("set innodb_lock_wait_timeout = 1")
			kits.sessions[i].MustExec("set time_zone = '+00:00'")
		}
		c.sides = append(c.sides, kits)
	}
	return c
}

// schema makes two tables and runs n statements on them, in two sessions that
// take turns. The second one has transactions open only while the first has
// none, so that neither waits for a lock.
func (c *comparison) schema(n uint64, large bool) {
	c.schemas++
	a, b := newTable(c.rng, fmt.Sprintf("a%d", c.schemas), large), newTable(c.rng, fmt.Sprintf("b%d", c.schemas), large)
	for _, t := range []*table{a, b} {
		c.run(0, t.create(), false)
		c.fill(t)
		c.everywhere(t.split(c.rng))
	}
	inTxn := false
	who := 0
	for range n {
		if c.t.Failed() {
			return
		}
		if c.diverged {
			break
		}
		t, other := a, b
		if oneIn(c.rng, 2) {
			t, other = b, a
		}
		if oneIn(c.rng, 30) {
			c.everywhere(setting(c.rng))
		}
		switch k := c.rng.IntN(40); {
		case k == 0 && !inTxn:
			c.run(who, t.alter(c.rng), false)
		case k <= 3 && !inTxn:
			c.run(who, pick(c.rng, "BEGIN", "BEGIN OPTIMISTIC", "BEGIN PESSIMISTIC"), false)
			inTxn = true
		case k <= 5 && inTxn:
			c.run(who, pick(c.rng, "COMMIT", "COMMIT", "ROLLBACK"), false)
			inTxn, who = false, 1-who
		case k == 6 && inTxn:
			c.run(who, pick(c.rng, "SAVEPOINT x", "ROLLBACK TO SAVEPOINT x"), false)
		case k == 7 && !inTxn:
			c.run(who, pick(c.rng, "ADMIN CHECK TABLE ", "ANALYZE TABLE ")+t.name, false)
		case k < 20:
			c.run(who, t.change(c.rng), false)
		default:
			q, ordered := query(c.rng, t, other)
			reader := who
			if oneIn(c.rng, 3) {
				reader = 1 - who // sees what is committed
			}
			c.run(reader, q, ordered)
		}
	}
	if c.diverged {
		c.diverged = false
		for _, statement := range []string{"ROLLBACK", "DROP TABLE IF EXISTS " + a.name, "DROP TABLE IF EXISTS " + b.name} {
			c.everywhere(statement)
		}
		return
	}
	if inTxn {
		c.run(who, "COMMIT", false)
	}
	for _, t := range []*table{a, b} {
		c.run(0, "SELECT * FROM "+t.name, false)
		c.run(0, "ADMIN CHECK TABLE "+t.name, false)
		c.run(0, "DROP TABLE "+t.name, false)
	}
}

// fill gives the table its first rows.
func (c *comparison) fill(t *table) {
	rows, each := 12, 2
	if t.ids == manyRows {
		rows, each = manyRows*3/4, 150
	}
	for ; rows > 0; rows -= each {
		c.run(0, t.fill(c.rng, each), false)
	}
}

// everywhere runs a statement, if there is one, whose result is not compared in all sessions.
func (c *comparison) everywhere(statement string) {
	if statement == "" {
		return
	}
	c.history = append(c.history, statement+";")
	for _, s := range c.sides {
		for _, tk := range s.sessions {
			if out := execute(tk, statement, false); out.code != 0 {
				c.t.Errorf("%s: %s: error %d", s.name, statement, out.code)
			}
		}
	}
}

// outcome is what a client sees of a statement. Which of a row's errors is
// reported depends on the order of evaluation, so that messages may differ.
type outcome struct {
	code terror.ErrCode
	// class is what the message of an error without a code begins with.
	class    string
	affected uint64
	rows     []string
}

// brief says how the outcome differs from another: all of it, or the first rows that the other has not in that place.
func (o outcome) brief(other outcome) string {
	if len(o.rows) <= 20 {
		return fmt.Sprintf("%+v", o)
	}
	same := 0
	for same < min(len(o.rows), len(other.rows)) && o.rows[same] == other.rows[same] {
		same++
	}
	return fmt.Sprintf("code %d, %d changed, %d rows, from row %d: %q", o.code, o.affected, len(o.rows), same, o.rows[same:min(same+10, len(o.rows))])
}

// ofValues are the errors of an expression that one row has and another has not. Which is met
// first depends on how many rows are evaluated at a time.
var ofValues = map[terror.ErrCode]bool{
	errno.ErrDataOutOfRange: true, errno.ErrTruncatedWrongValue: true, errno.ErrDivisionByZero: true,
	errno.ErrWarnDataOutOfRange: true, errno.ErrTruncatedWrongValueForField: true, errno.ErrDataTooLong: true,
}

// failsNeedlessly reports whether one side only met an error of values that the statement can be answered without. How far
// a store reads past the last row of a LIMIT is its own. So is, after a condition that is not true for a row, which of the
// others are evaluated: unistore evaluates those after an IN that is NULL and stops at an OR that is true, kv/embedded does
// neither, as TiKV.
func failsNeedlessly(statement string, a, b outcome) bool {
	if (a.code == 0) == (b.code == 0) || max(a.code, b.code) != errno.ErrDataOutOfRange {
		return false
	}
	return slices.ContainsFunc([]string{" LIMIT ", " AND ", " OR "}, func(word string) bool { return strings.Contains(statement, word) })
}

// run runs a statement on both sides and compares.
func (c *comparison) run(who int, statement string, ordered bool) {
	c.statements++
	c.history = append(c.history, fmt.Sprintf("%d: %s;", who, statement))
	if len(c.history) > 400 {
		c.history = c.history[200:]
	}
	var outcomes []outcome
	for _, s := range c.sides {
		outcomes = append(outcomes, execute(s.sessions[who], statement, ordered))
	}
	if outcomes[0].code != 0 {
		c.failed++
	}
	if failsNeedlessly(statement, outcomes[0], outcomes[1]) {
		c.needless++
		c.diverged = outcomes[0].affected+outcomes[1].affected > 0
		return
	}
	if fmt.Sprint(outcomes[0]) != fmt.Sprint(outcomes[1]) {
		c.t.Errorf("statement %d differs:\n%s\n%s: %s\n%s: %s\nbefore it:\n%s", c.statements, statement,
			c.sides[0].name, outcomes[0].brief(outcomes[1]), c.sides[1].name, outcomes[1].brief(outcomes[0]), strings.Join(c.history, "\n"))
	}
}

// classOf is the message of an error up to the first thing that may be of one store only: a
// number, a name or its cause.
func classOf(err error) string {
	message := errors.Cause(err).Error()
	if i := strings.IndexAny(message, "0123456789:'`\""); i >= 0 {
		message = message[:i]
	}
	return strings.TrimSpace(message)
}

func execute(tk *testkit.TestKit, statement string, ordered bool) (out outcome) {
	rs, err := tk.ExecWithContext(context.Background(), statement)
	if err == nil && rs != nil {
		var rows [][]string
		rows, err = session.ResultSetToStringSlice(context.Background(), tk.Session(), rs)
		_ = rs.Close()
		for _, row := range rows {
			out.rows = append(out.rows, strings.Join(row, "|"))
		}
		if !ordered {
			slices.Sort(out.rows)
		}
	}
	if err != nil {
		out.rows, out.code = nil, -1
		if e, ok := errors.Cause(err).(*terror.Error); ok {
			out.code = terror.ErrCode(e.Code())
		} else {
			out.class = classOf(err)
		}
		if ofValues[out.code] {
			out.code = errno.ErrDataOutOfRange
		}
		return out
	}
	out.affected = tk.Session().AffectedRows()
	return out
}
