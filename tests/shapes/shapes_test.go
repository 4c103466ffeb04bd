package shapes

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tidbconfig "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/internal/randtest"
	"fastddl/kv"
)

const (
	// slice are the rounds of a test in go test, always the same: a new bug of TiDB's must not stop a
	// change of ours. long is how long it looks for others under FASTDDL_LONG.
	slice = 20
	long  = 20 * time.Minute
)

// TestRandomShapes plays rounds, those of before in go test, and new ones until the time is up under
// FASTDDL_LONG, or for FASTDDL_TIME. FASTDDL_SEED repeats one.
func TestRandomShapes(t *testing.T) { random(t, true) }

// TestRandomShapesOfOldCollations is TestRandomShapes in a cluster that was set up without
// new_collations_enabled_on_first_bootstrap.
func TestRandomShapesOfOldCollations(t *testing.T) { random(t, false) }

func random(t *testing.T, newCollations bool) {
	first := uint64(1)
	if !newCollations {
		first += slice
	}
	p := newRounds(t, newCollations)
	each(t, first, slice, p.play)
	t.Logf("%s", p)
}

// each plays so many rounds from the first one on, or new ones, or the one that the environment asks for.
func each(t *testing.T, first, rounds uint64, play func(*testing.T, uint64)) {
	if seed, ok := randtest.Fixed(t); ok {
		play(t, seed)
		return
	}
	total := randtest.Time(t, 0, long)
	if testing.Short() {
		rounds = min(rounds, 3)
	}
	began := time.Now()
	if total > 0 {
		first = uint64(began.UnixNano())
	}
	for seed := first; seed < first+rounds || time.Since(began) < total; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { play(t, seed) })
	}
}

// rounds are played one after the other in one server.
type rounds struct {
	*env
	theirs, ours                                           *client
	played, invalid, refused, built, byTiDB, rows, written int
	causes                                                 map[string]int
}

func newRounds(t *testing.T, newCollations bool) *rounds {
	defer tidbconfig.RestoreFunc()()
	tidbconfig.UpdateGlobal(func(c *tidbconfig.Config) { c.NewCollationsEnabledOnFirstBootstrap = newCollations })
	p := &rounds{env: newEnv(t), causes: make(map[string]int)}
	p.theirs, p.ours = p.client("theirs"), p.client("ours")
	t.Cleanup(func() {
		p.theirs.s.Close()
		p.ours.s.Close()
	})
	for _, setting := range []string{"tidb_enable_dist_task", "tidb_ddl_enable_fast_reorg"} {
		p.ours.run("set global " + setting + " = off")
	}
	p.theirs.run("set fastddl_ddl_engine = 'tidb'")
	return p
}

func (p *rounds) String() string {
	return fmt.Sprintf("%d rounds with %d rows: %d tables were not valid, %d statements refused, %d built, %d of them by TiDB, %d compared with DML; %v",
		p.played, p.rows, p.invalid, p.refused, p.built, p.byTiDB, p.written, p.causes)
}

// both runs a statement in both databases, if it succeeds in the first.
func (p *rounds) both(statement string) error {
	if err := p.theirs.try(statement); err != nil {
		return err
	}
	return p.ours.try(statement)
}

// round is a table with what was done to it.
type round struct {
	*rounds
	r       *rand.Rand
	history []string
}

func (d *round) failf(what, format string, args ...any) {
	d.t.Helper()
	last := d.history[len(d.history)-1]
	require.Failf(d.t, what, "%s: %s\n%s", last, fmt.Sprintf(format, args...), strings.Join(d.history, ";\n"))
}

func (p *rounds) play(t *testing.T, seed uint64) {
	p.t = t
	p.played++
	d := &round{rounds: p, r: rand.New(rand.NewPCG(seed, 1))}
	p.useWorkers(seed%2 == 0)
	defer func() {
		if t.Failed() {
			randtest.Print(t, seed)
		}
	}()
	d.reset()
	table := newRandomTable(d.r)
	if !d.prepare(table) {
		p.invalid++
		return
	}
	statement := table.indexes()
	d.settle()
	d.history = append(d.history, statement)
	d.compare(table, statement)
}

// reset drops the tables and what was set for them.
func (p *rounds) reset() {
	for _, c := range []*client{p.theirs, p.ours} {
		c.run("set time_zone = 'UTC', sql_mode = '', tidb_row_format_version = 2")
		c.run("drop table if exists t")
	}
}

var (
	zones = []string{"UTC", "Europe/Berlin", "America/New_York", "+05:45", "Asia/Shanghai"}
	modes = []string{"", mysql.DefaultSQLMode, mysql.DefaultSQLMode, "ALLOW_INVALID_DATES", "STRICT_TRANS_TABLES", "ALLOW_INVALID_DATES,STRICT_ALL_TABLES", "PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION"}
)

// settle gives both sessions the same random settings.
func (d *round) settle() {
	statement := fmt.Sprintf("set time_zone = '%s', sql_mode = '%s'", pick(d.r, zones), pick(d.r, modes))
	d.history = append(d.history, statement)
	for _, c := range []*client{d.theirs, d.ours} {
		c.run(statement)
	}
}

// prepare makes the tables, gives them a history and rows, and says if that went well.
func (d *round) prepare(table *randomTable) bool {
	statement := table.create()
	d.history = append(d.history, statement)
	if err := d.both(statement); err != nil {
		d.causes["create: "+message(err)[:4]]++
		if os.Getenv("FASTDDL_SHAPES_VERBOSE") != "" {
			d.t.Log(message(err), statement)
		}
		return false
	}
	for range 1 + d.r.IntN(4) {
		d.insert(table)
		if chance(d.r, 2) {
			statement, done := table.change()
			d.history = append(d.history, statement)
			if err := d.theirs.try(statement); err != nil {
				d.causes["change: "+message(err)[:4]]++
				if os.Getenv("FASTDDL_SHAPES_VERBOSE") != "" {
					d.t.Log(message(err), statement)
				}
				d.history[len(d.history)-1] += " -- fails"
				continue
			}
			if d.ours.try(statement) != nil {
				return false
			}
			done()
		}
	}
	d.insert(table)
	a, b := d.theirs.table(), d.ours.table()
	if describeIDs(a) != describeIDs(b) {
		d.causes["IDs differ"]++
		return false
	}
	d.copyRows(a, b)
	d.rows += len(d.records(b))
	return true
}

// insert inserts rows under random settings.
func (d *round) insert(table *randomTable) {
	setting := fmt.Sprintf("set time_zone = '%s', sql_mode = '%s', tidb_row_format_version = %d, allow_auto_random_explicit_insert = on, tidb_skip_utf8_check = %d",
		pick(d.r, zones), pick(d.r, []string{"", "ALLOW_INVALID_DATES"}), pick(d.r, []int{1, 2, 2}), pick(d.r, []int{0, 0, 1}))
	d.history = append(d.history, setting)
	d.theirs.run(setting)
	d.ours.run(setting)
	for range 1 + d.r.IntN(5) {
		statement := table.insert()
		d.history = append(d.history, statement)
		if err := d.theirs.try(statement); err != nil {
			d.causes["insert: "+message(err)[:4]]++
			if os.Getenv("FASTDDL_SHAPES_VERBOSE") != "" {
				d.t.Log(message(err), statement)
			}
			d.history[len(d.history)-1] += " -- fails"
		}
	}
}

// describeIDs lists the IDs of columns and indexes.
func describeIDs(info *model.TableInfo) string {
	var parts []string
	for _, c := range info.Columns {
		parts = append(parts, fmt.Sprintf("%s=%d", c.Name.O, c.ID))
	}
	for _, idx := range info.Indices {
		parts = append(parts, fmt.Sprintf("%s=%d", idx.Name.O, idx.ID))
	}
	slices.Sort(parts) // several hidden columns are in either order
	return fmt.Sprintf("%s, up to %d and %d", strings.Join(parts, " "), info.MaxColumnID, info.MaxIndexID)
}

// added are the indexes that a table has and that have entries of their own.
func added(info *model.TableInfo) (out []*model.IndexInfo) {
	for _, idx := range info.Indices {
		if !(idx.Primary && info.IsCommonHandle) {
			out = append(out, idx)
		}
	}
	return out
}

// compare has both build, and compares errors or entries.
func (d *round) compare(table *randomTable, statement string) {
	before := d.ours.table().Clone()
	theirs, ours := d.theirs.try(statement), d.ours.try(statement)
	if message(theirs) != message(ours) {
		if d.excused(table, theirs, ours) {
			return
		}
		several := theirs != nil && ours != nil && strings.Count(statement, "unique")+strings.Count(statement, "((")+strings.Count(statement, "index") > 2
		first, second := d.firstFailure(statement, theirs, ours)
		switch {
		case message(first) == message(second):
		case several && message(first)[:4] == message(second)[:4], first != nil && second != nil && strings.Count(statement, " add ") > 1:
			d.causes["one row fails in several ways"]++
		case strings.HasPrefix(message(first), "1062 ") && d.zoned(table): // ours shows TIMESTAMPs as the session's clocks do
			d.causes["1062 with TIMESTAMP"]++
		default:
			d.failf("errors differ", "TiDB: %q, %q\nours: %q, %q", message(theirs), message(first), message(ours), message(second))
		}
	}
	if theirs != nil {
		d.refused++
		d.causes["refused: "+message(ours)[:4]]++
		if after := d.ours.table(); len(before.Columns) != len(after.Columns) || len(before.Indices) != len(after.Indices) {
			d.failf("something is left", "%s", describeIDs(after))
		}
		return
	}
	d.built++
	if len(d.warnings()) > 0 {
		d.byTiDB++
	}
	a, b := d.theirs.table(), d.ours.table()
	if describeIDs(a) != describeIDs(b) {
		d.failf("tables differ", "TiDB: %s\nours: %s", describeIDs(a), describeIDs(b))
	}
	want := d.entries(a, added(a), 0)
	if table.byRows || d.lossy(table) { // TiDB's build takes one of two instants for the other
		want = d.encoded(b)
	}
	d.requireSame("built by SQL", want, d.entries(b, added(b), 0))
	d.backfill(b, want)
	if d.lossy(table) {
		return
	}
	if err := d.ours.check(); err != nil {
		// Some values of expressions TiDB's builds and its queries see differently.
		// Which of them is reported first is left open.
		if theirs := d.theirs.check(); theirs == nil || message(theirs)[:4] != message(err)[:4] {
			d.failf("ADMIN CHECK TABLE", "%s", message(err))
		}
		d.causes["checks fail for both"]++
		return
	}
	d.dml(b)
}

// lossy says that the table has times that the session's clocks show twice: of these TiDB
// takes one for the other, in builds and in DML.
func (d *round) lossy(table *randomTable) bool {
	return table.repeated && d.ours.s.GetSessionVars().Location() != time.UTC
}

// excused says that the errors of a statement may differ. TiDB's transactional build computes
// all virtual columns and defaults of a table, whether an index needs them or not, and fails where
// one has no value; its other ways do not.
func (d *round) excused(table *randomTable, theirs, ours error) bool {
	evaluation := theirs != nil && !strings.HasPrefix(message(theirs), "1062 ") &&
		slices.ContainsFunc(table.columns, func(c *column) bool { return c.virtual || strings.Contains(c.attributes, " default ") })
	switch {
	case evaluation:
		d.causes["excused: "+message(theirs)[:4]]++
	case d.lossy(table):
		d.causes["excused: times"]++
	default:
		return false
	}
	return true
}

// zoned says that the session's clocks show times of the table otherwise than they are stored.
func (d *round) zoned(table *randomTable) bool {
	return d.ours.s.GetSessionVars().Location() != time.UTC && slices.ContainsFunc(table.columns, func(c *column) bool { return c.zoned })
}

// firstFailure returns the errors of a statement with no more rows than make it fail: of
// several rows each may name another one.
func (d *round) firstFailure(statement string, theirs, ours error) (error, error) {
	if theirs == nil || ours == nil || message(theirs)[:4] != message(ours)[:4] {
		return theirs, ours
	}
	d.causes["several rows fail"]++
	all := d.records(d.theirs.table())
	rows := slices.Sorted(maps.Keys(all))
	drop := func(c *client) {
		var drops []string
		for _, idx := range c.table().Indices {
			if strings.HasPrefix(idx.Name.L, "i") {
				drops = append(drops, "drop index "+idx.Name.O)
			} else if idx.Primary && !strings.Contains(d.history[0], "primary key") {
				drops = append(drops, "drop primary key")
			}
		}
		c.run("alter table t " + strings.Join(drops, ", "))
	}
	with := func(n int) error { // n rows
		d.write(map[string]string{}, rows)
		some := make(map[string]string)
		for _, row := range rows[:n] {
			some[row] = all[row]
		}
		d.write(some, nil)
		err := d.theirs.try(statement)
		if err == nil {
			drop(d.theirs)
		}
		return err
	}
	few, many := 0, len(rows)
	for few+1 < many {
		if n := (few + many) / 2; with(n) == nil {
			few = n
		} else {
			many = n
		}
	}
	theirs = with(many)
	d.write(nil, slices.Collect(maps.Keys(d.records(d.ours.table()))))
	d.copyRows(d.theirs.table(), d.ours.table())
	if ours = d.ours.try(statement); ours == nil {
		drop(d.ours)
	}
	return theirs, ours
}

// check has TiDB judge the entries.
func (c *client) check() error {
	c.run("set tidb_enable_fast_table_check = off")
	return c.try("admin check table t")
}

// warnings returns those of the last statement, with notes.
func (d *round) warnings() []string {
	notes, err := d.ours.rows("show warnings")
	require.NoError(d.t, err)
	return notes
}

func (d *round) requireSame(what string, want, got map[string]string) {
	d.t.Helper()
	if diff := differences(want, got); diff != "" {
		d.failf(what, "%s", diff)
	}
}

// backfill builds the indexes in small batches, over both drivers, and row by row.
func (d *round) backfill(info *model.TableInfo, want map[string]string) {
	d.cut(d.r, info)
	vars := d.ours.s.GetSessionVars()
	task := encode.Task{JobID: 1, Table: info, TS: d.now(), SQLMode: vars.SQLMode, Location: vars.Location()}
	for n, store := range []kv.Store{d.store.Builds(), d.driver} {
		shift := int64(100 * (1 + n))
		shifted := task
		shifted.Table = info.Clone()
		shifted.Indexes = nil
		for _, idx := range shifted.Table.Indices {
			if !(idx.Primary && info.IsCommonHandle) {
				idx.ID += shift
				shifted.Indexes = append(shifted.Indexes, idx)
			}
		}
		opts := backfill.Options{Store: store, TempDir: fmt.Sprintf("%s/backfill%d", d.temp, n), BatchRows: 1 + d.r.IntN(20), TaskBytes: 2048}
		what := fmt.Sprintf("driver %d, batches of %d rows", n, opts.BatchRows)
		if _, err := backfill.Run(context.Background(), opts, backfill.Spec{Task: shifted}); err != nil {
			d.failf(what, "%v", err)
		}
		d.requireSame(what, want, d.entries(info, added(info), shift))
		shifted.TS = d.now()
		found, err := compare.Run(context.Background(), opts.Common(), shifted)
		require.NoError(d.t, err)
		if !found.Clean() {
			d.failf(what, "compared: %+v", found)
		}
	}
	d.requireSame("row by row", want, d.encoded(info))
}

// collect adds an entry as entries would read it.
func collect(all map[string]string, info *model.TableInfo, ids []int64, e encode.Entry) {
	n := 0
	for i, id := range ids {
		if tablecodec.DecodeTableID(e.Key) == id {
			n = i
		}
	}
	k, v := string(e.Key[len(tablecodec.EncodeTableIndexPrefix(0, 0)):]), string(e.Value)
	for _, idx := range info.Indices {
		if idx.ID == e.Index && idx.Global {
			k, v = neutral(k, ids), neutral(v, ids)
		}
	}
	all[fmt.Sprintf("%d/%d/%x", e.Index, n, k)] = fmt.Sprintf("%x", v)
}

// dml deletes the rows and inserts them again, from the other table. What it writes must be
// what the new rows give.
func (d *round) dml(info *model.TableInfo) {
	var names []string
	for _, c := range info.Columns {
		if !c.IsGenerated() && !c.Hidden {
			names = append(names, "`"+c.Name.O+"`")
		}
	}
	list := strings.Join(names, ", ")
	d.ours.run("set allow_auto_random_explicit_insert = on, tidb_row_format_version = 2")
	statements := []string{"delete from t", "insert into t (" + list + ") select " + list + " from theirs.t"}
	for i, statement := range statements {
		if err := d.ours.try(statement); err != nil {
			d.causes["dml: "+message(err)[:4]]++
			if os.Getenv("FASTDDL_SHAPES_VERBOSE") != "" {
				d.t.Log(message(err), statement, d.history[0], d.history[len(d.history)-1])
			}
			return
		}
		if got := d.entries(info, added(info), 0); i == 0 && len(got) > 0 {
			d.failf("entries of deleted rows", "%d records are left of %d; %s", len(d.records(info)), len(d.records(d.theirs.table())), differences(nil, got))
		}
	}
	d.written++
	diff := differences(d.encoded(info), d.entries(info, added(info), 0))
	if err := d.ours.check(); err != nil { // what TiDB has written is not what its rows give
		d.causes["dml: "+message(err)[:4]]++
		return
	}
	if diff != "" {
		d.failf("written by DML", "%s", diff)
	}
}

// encoded are the entries that the rows of a table give one by one.
func (d *round) encoded(info *model.TableInfo) map[string]string {
	vars := d.ours.s.GetSessionVars()
	task := encode.Task{JobID: 1, Table: info, Indexes: added(info), SQLMode: vars.SQLMode, Location: vars.Location()}
	enc, err := encode.NewRowEncoder(task)
	require.NoError(d.t, err)
	ids := physicalIDs(info)
	all := make(map[string]string)
	for k, v := range d.records(info) {
		entries, err := enc.Encode([]byte(k), []byte(v))
		if err != nil {
			d.failf("row by row", "%v", err)
		}
		for _, e := range entries {
			collect(all, info, ids, e)
		}
	}
	return all
}
