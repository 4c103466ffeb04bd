package sql_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
)

// place is where a job is stopped for DML.
type place string

// The places, in the order in which a job reaches them.
const (
	inDeleteOnly  place = "in delete-only"
	inWriteOnly   place = "in write-only"
	beforeS       place = "before S"
	afterS        place = "after S"
	beforeImport  place = "before the import"
	afterImport   place = "after the import"
	drained       place = "drained"
	compared      place = "compared"
	published     place = "published"
	whileDraining place = "while draining"
)

// hooks says where in a job's course a place is. A job is whileDraining when it waits
// for open transactions after the import; that has no hook.
var hooks = map[place]ddl.HookPoint{
	inDeleteOnly: {When: "before", Action: "change-schema", Step: "write-only"},
	inWriteOnly:  {When: "before", Action: "change-schema", Step: "write-reorg"},
	beforeS:      {When: "before", Action: "take-snapshot"},
	afterS:       {When: "before", Action: "await-older"},
	beforeImport: {When: "before", Action: "backfill"},
	afterImport:  {When: "before", Action: "change-schema", Step: "drained"},
	drained:      {When: "before", Action: "compare"},
	compared:     {When: "before", Action: "change-schema", Step: "public"},
	published:    {When: "after", Action: "change-schema", Step: "public"},
}

// act is what a writer does at a place.
type act struct {
	at place
	// by is the writer: each number is a connection.
	by int
	// statements run one by one, with BEGIN, as the mode says, for a transaction. The
	// last may fail with code, if one is given.
	statements []string
	code       int
}

// do is an act of the first writer: statements that each stand for themselves.
func do(at place, statements ...string) act { return act{at: at, statements: statements} }

// inTxn is an act of the first writer in one transaction, if there are any.
func inTxn(at place, statements ...string) act {
	return do(at, append(append([]string{"BEGIN"}, statements...), "COMMIT")...)
}

// fails is the act whose last statement fails.
func (a act) fails(code int) act {
	a.code = code
	return a
}

// as is the act of another writer.
func (a act) as(writer int) act {
	a.by = writer
	return a
}

// uniqueCase is a build of a unique index on rows 1 to 5, with the values 1 to 5.
type uniqueCase struct {
	name string
	acts []act
	// needsKey says that a must be a key of the table.
	needsKey bool
	// refusedLazily says of one whose transaction is open over the import that its COMMIT
	// is refused where checks come with it.
	refusedLazily bool
	// duplicates are what fails the build: value and number of rows. Without any it
	// succeeds.
	duplicates []duplicate
}

type duplicate struct{ value, rows int }

// ground is a store that cases run on.
type ground struct {
	*env
	name    string
	admin   *client
	writers []*client
	cases   int
}

// grounds runs test on the embedded store and, in the long form of the tests, on unistore.
func grounds(t *testing.T, test func(t *testing.T, g *ground)) { runGrounds(t, inFull(), test) }

// bothGrounds runs test on both stores always.
func bothGrounds(t *testing.T, test func(t *testing.T, g *ground)) { runGrounds(t, true, test) }

func runGrounds(t *testing.T, unistore bool, test func(t *testing.T, g *ground)) {
	for _, store := range []struct {
		name string
		open func(t *testing.T) *env
	}{
		{"embedded", func(t *testing.T) *env { return newEnv(t) }},
		{"unistore", newUnistoreEnv},
	} {
		t.Run(store.name, func(t *testing.T) {
			if store.name == "unistore" && !unistore {
				t.Skip("runs with FASTDDL_LONG=1")
			}
			g := &ground{env: store.open(t), name: store.name}
			g.connect()
			test(t, g)
		})
	}
}

func (g *ground) connect() {
	g.admin = g.client()
	for range 2 {
		g.writers = append(g.writers, g.client())
	}
}

// newDatabase gives the next case a database of its own, which is made faster than an
// old table goes.
func (g *ground) newDatabase() {
	g.t.Helper()
	g.cases++
	for _, c := range append(g.writers, g.admin) {
		c.run("CREATE DATABASE IF NOT EXISTS unique%d; USE unique%[1]d", g.cases)
	}
}

// play runs a case.
func (g *ground) play(t *testing.T, s shape, m mode, c uniqueCase) {
	t.Helper()
	admin := g.admin.of(t)
	g.newDatabase()
	admin.run("CREATE TABLE t (%s) %s", s.columns, s.partition)
	for n := 1; n <= 5; n++ {
		admin.run("INSERT INTO t (a, b) VALUES ('%d', %s)", n, s.value(n))
	}
	for _, w := range g.writers {
		for _, set := range m.set {
			w.run("SET " + set)
		}
	}
	problems := g.stage(s, m, c)
	result := g.start(fmt.Sprintf("ALTER TABLE unique%d.t ADD UNIQUE INDEX u %s", g.cases, s.index))
	g.whileDraining(t, s, m, c, result)
	err := wait(t, result)
	g.setHook(nil)
	for _, w := range g.writers {
		_, _ = w.try("ROLLBACK")
		for _, set := range m.set {
			name, _, _ := strings.Cut(set, " =")
			w.run("SET %s = DEFAULT", name)
		}
	}
	require.Empty(t, *problems)
	g.judge(t, s, c, err)
}

// stage has the acts done at their places. What goes wrong is in problems, once the
// job has ended.
func (g *ground) stage(s shape, m mode, c uniqueCase) (problems *[]string) {
	problems = new([]string)
	var mu sync.Mutex
	done := make(map[int]bool)
	g.setHook(func(_ context.Context, p ddl.HookPoint) error {
		for i, a := range c.acts {
			if at, ok := hooks[a.at]; !ok || !matches(p, at) {
				continue
			}
			mu.Lock()
			if !done[i] {
				done[i] = true
				*problems = append(*problems, g.perform(s, m, a)...)
			}
			mu.Unlock()
		}
		return nil
	})
	return problems
}

// perform does one act and returns what went otherwise than it should.
func (g *ground) perform(s shape, m mode, a act) (problems []string) {
	for i, statement := range a.statements {
		switch statement {
		case "BEGIN":
			statement = m.begin
		case "COMMIT":
			if m.begin == "" {
				statement = ""
			}
		}
		if statement == "" {
			continue
		}
		want := 0
		if i == len(a.statements)-1 {
			want = a.code
		}
		got := 0
		_, err := g.writers[a.by].try("%s", s.sql(statement))
		if err != nil {
			got = errorCode(err)
		}
		if got != want {
			problems = append(problems, fmt.Sprintf("%s: %s: error %d instead of %d: %v", a.at, statement, got, want, err))
		}
	}
	return problems
}

// whileDraining does the acts of that place when the job waits for transactions.
func (g *ground) whileDraining(t *testing.T, s shape, m mode, c uniqueCase, result <-chan error) {
	t.Helper()
	waiting := false
	for _, a := range c.acts {
		if a.at != whileDraining {
			continue
		}
		if !waiting {
			waiting = true
			require.Eventually(t, func() bool {
				jobs := g.DDL().Unfinished()
				return len(result) > 0 || len(jobs) == 1 && jobs[0].Step == "drained" && strings.Contains(jobs[0].WaitReason, "held by")
			}, hangTimeout, time.Millisecond)
			require.Empty(t, result, "the build did not wait for an open transaction")
		}
		require.Empty(t, g.perform(s, m, a))
	}
}

// judge compares a build's end with what it must be.
func (g *ground) judge(t *testing.T, s shape, c uniqueCase, err error) {
	t.Helper()
	admin := g.admin.of(t)
	if len(c.duplicates) == 0 {
		require.NoError(t, err)
		admin.check("t")
		require.Equal(t, admin.run("SELECT a, b FROM t IGNORE INDEX (u) ORDER BY b, a"), admin.run("SELECT a, b FROM t FORCE INDEX (u) ORDER BY b, a"))
		require.Equal(t, "synced public 100", admin.lastJob("state, schema_state, percent"))
		return
	}
	require.Equal(t, 1062, errorCode(err), "%v", err)
	var want, messages []string
	for _, d := range c.duplicates {
		want = append(want, fmt.Sprintf("u %s %d", s.entry(d.value), d.rows))
		messages = append(messages, fmt.Sprintf("[kv:1062]Duplicate entry '%s' for key 't.u'", s.entry(d.value)))
	}
	said, _, pointed := strings.Cut(err.Error(), " (rows listed in mysql.fastddl_ddl_errors, job ")
	require.True(t, pointed, "%v", err)
	require.Contains(t, messages, said)
	// In order of partitions.
	require.ElementsMatch(t, want, admin.run(`SELECT index_name, entry, row_count FROM mysql.fastddl_ddl_duplicates
		WHERE job_id = (SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs)`))
	g.leavesNothingOf(t)
	admin.check("t")
}

// leavesNothingOf checks that a build that failed has left nothing (I7).
func (g *ground) leavesNothingOf(t *testing.T) {
	t.Helper()
	admin := g.admin.of(t)
	require.NotContains(t, admin.one("SHOW CREATE TABLE t"), "`u`")
	for _, table := range []string{"fastddl_ddl_record", "tidb_ddl_job", "tidb_mdl_info"} {
		require.Empty(t, admin.run("SELECT * FROM mysql."+table))
	}
	entries, err := os.ReadDir(g.dir + "/tmp")
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	require.Empty(t, entries)
}

// matrix plays cases on all shapes in all modes of a test that takes its time
// (FASTDDL_LONG). Otherwise it plays each case on the first shape in one of the main
// modes, and, on the embedded store, on one other shape in one mode.
func (g *ground) matrix(t *testing.T, modes []mode, cases func(m mode) []uniqueCase) {
	chosen := g.choose(t, modes, cases)
	for i, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			for _, m := range modes {
				t.Run(m.name, func(t *testing.T) {
					for _, c := range cases(m) {
						if s.noKey && c.needsKey || !inFull() && !chosen[choice{i, m.name, c.name}] {
							continue
						}
						t.Run(c.name, func(t *testing.T) { g.play(t, s, m, c) })
					}
				})
			}
		})
	}
}

// inFull says that a test takes its time.
func inFull() bool { return os.Getenv("FASTDDL_LONG") != "" }

// choice is a case on one shape in one mode.
type choice struct {
	shape      int
	mode, name string
}

// choose says what a short matrix plays. Modes differ in the cases that they have, so
// each case has its turn among the modes that have it.
func (g *ground) choose(t *testing.T, modes []mode, cases func(m mode) []uniqueCase) map[choice]bool {
	t.Helper()
	chosen, played := make(map[choice]bool), make(map[string]bool)
	all := inModes(modes, cases)
	for k, c := range all {
		// The main modes come first.
		first := choice{0, c.modes[k%min(len(c.modes), len(mainModes))], c.name}
		chosen[first], played[c.name] = true, true
		if g.name != "embedded" || testing.Short() {
			continue
		}
		i := 1 + k%(len(shapes)-1)
		for shapes[i].noKey && c.needsKey {
			i = 1 + i%(len(shapes)-1)
		}
		chosen[choice{i, c.modes[(i+k)%len(c.modes)], c.name}] = true
	}
	for _, m := range modes {
		for _, c := range cases(m) {
			require.True(t, played[c.name], "%s is never played", c.name)
		}
	}
	return chosen
}

// caseInModes is the name of a case and of the modes that have it.
type caseInModes struct {
	uniqueCase
	modes []string
}

// inModes returns the cases of all modes, each once.
func inModes(modes []mode, cases func(m mode) []uniqueCase) (all []caseInModes) {
	for _, m := range modes {
		for _, c := range cases(m) {
			i := slices.IndexFunc(all, func(o caseInModes) bool { return o.name == c.name })
			if i < 0 {
				i = len(all)
				all = append(all, caseInModes{uniqueCase: c})
			}
			all[i].modes = append(all[i].modes, m.name)
		}
	}
	return all
}
