package shapes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/kv"
)

const (
	// slice is how long TestRandomShapes takes in go test, long under FASTDDL_LONG.
	slice, long = 5 * time.Second, 30 * time.Minute
	// minRounds are played however slow the machine is.
	minRounds = 5
)

// TestRandomShapes plays rounds until the time is up. FASTDDL_SHAPES_SEED repeats one, and
// FASTDDL_SHAPES_TIME says how long.
func TestRandomShapes(t *testing.T) {
	if text := os.Getenv("FASTDDL_SHAPES_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "FASTDDL_SHAPES_SEED")
		newRounds(t).play(t, seed)
		return
	}
	total := slice
	if os.Getenv("FASTDDL_LONG") != "" {
		total = long
	}
	if text := os.Getenv("FASTDDL_SHAPES_TIME"); text != "" {
		var err error
		total, err = time.ParseDuration(text)
		require.NoError(t, err, "FASTDDL_SHAPES_TIME")
	}
	rounds := newRounds(t)
	began := time.Now()
	for seed := uint64(began.UnixNano()); rounds.played < minRounds || time.Since(began) < total; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { rounds.play(t, seed) })
	}
	t.Logf("%s", rounds)
}

// rounds are played one after the other in one server.
type rounds struct {
	*env
	theirs, ours                                           *client
	played, invalid, refused, built, byTiDB, rows, written int
	causes                                                 map[string]int
}

func newRounds(t *testing.T) *rounds {
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
	require.Failf(d.t, what, "%s\n%s", fmt.Sprintf(format, args...), strings.Join(d.history, ";\n"))
}

func (p *rounds) play(t *testing.T, seed uint64) {
	p.t = t
	p.played++
	d := &round{rounds: p, r: rand.New(rand.NewPCG(seed, 1))}
	defer func() {
		if t.Failed() {
			t.Logf("FASTDDL_SHAPES_SEED=%d repeats it", seed)
		}
	}()
	for _, c := range []*client{p.theirs, p.ours} {
		c.run("set time_zone = 'UTC', sql_mode = '', tidb_row_format_version = 2")
		c.run("drop table if exists t")
	}
	table := newRandomTable(d.r)
	if !d.prepare(table) {
		p.invalid++
		return
	}
	statement := table.indexes()
	d.history = append(d.history, statement)
	d.settle()
	d.compare(statement)
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
	if !sameIDs(a, b) {
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

// sameIDs says that columns and indexes of both tables have the same IDs.
func sameIDs(a, b *model.TableInfo) bool {
	if len(a.Columns) != len(b.Columns) || len(a.Indices) != len(b.Indices) || a.MaxColumnID != b.MaxColumnID || a.MaxIndexID != b.MaxIndexID {
		return false
	}
	for i, c := range a.Columns {
		if c.ID != b.Columns[i].ID {
			return false
		}
	}
	return true
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
func (d *round) compare(statement string) {
	before := d.ours.table().Clone()
	theirs, ours := d.theirs.try(statement), d.ours.try(statement)
	if message(theirs) != message(ours) {
		d.failf("errors differ", "TiDB: %q\nours: %q", message(theirs), message(ours))
	}
	if theirs != nil {
		d.refused++
		d.causes["refused: "+message(ours)[:4]]++
		if !sameIDs2(before, d.ours.table()) {
			d.failf("something is left", "%d columns, %d indexes", len(d.ours.table().Columns), len(d.ours.table().Indices))
		}
		return
	}
	d.built++
	a, b := d.theirs.table(), d.ours.table()
	if !sameIDs(a, b) {
		d.failf("tables differ", "columns or indexes have other IDs")
	}
	if n := len(d.note()); n > 0 {
		d.byTiDB++
	}
	want := d.entries(a, added(a), 0)
	d.requireSame("built by SQL", want, d.entries(b, added(b), 0))
	d.backfill(b, want)
	if err := d.ours.try("admin check table t"); err != nil {
		d.failf("ADMIN CHECK TABLE", "%s", message(err))
	}
	d.dml(b, want)
}

// note returns the notes of the last statement.
func (d *round) note() []string {
	notes, err := d.ours.rows("show warnings")
	require.NoError(d.t, err)
	return notes
}

// sameIDs2 says that a table is as it was, but for IDs that were used up.
func sameIDs2(a, b *model.TableInfo) bool {
	return len(a.Columns) == len(b.Columns) && len(a.Indices) == len(b.Indices)
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
	task := backfill.Task{JobID: 1, Table: info, TS: d.now(), SQLMode: vars.SQLMode, Location: vars.Location()}
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
		found, err := backfill.Compare(context.Background(), opts, shifted)
		require.NoError(d.t, err)
		if !found.Clean() {
			d.failf(what, "compared: %+v", found)
		}
	}
	task.Indexes = added(info)
	enc, err := backfill.NewRowEncoder(task)
	require.NoError(d.t, err)
	ids := physicalIDs(info)
	got := make(map[string]string)
	for k, v := range d.records(info) {
		entries, err := enc.Encode([]byte(k), []byte(v))
		require.NoError(d.t, err)
		for _, e := range entries {
			d.collect(got, info, ids, e)
		}
	}
	d.requireSame("row by row", want, got)
}

// collect adds an entry as entries would read it.
func (d *round) collect(all map[string]string, info *model.TableInfo, ids []int64, e backfill.Entry) {
	n := 0
	for i, id := range ids {
		if tablecodec.DecodeTableID(e.Key) == id {
			n = i
		}
	}
	k, v := string(e.Key), string(e.Value)
	for _, idx := range info.Indices {
		if idx.ID == e.Index && idx.Global {
			k, v = neutral(k, ids), neutral(v, ids)
		}
	}
	all[fmt.Sprintf("%d/%d/%x", e.Index, n, k[len(tablecodec.EncodeTableIndexPrefix(0, 0)):])] = fmt.Sprintf("%x", v)
}

// dml deletes the rows and inserts them again, from the other table.
func (d *round) dml(info *model.TableInfo, want map[string]string) {
	var names []string
	for _, c := range info.Columns {
		if !c.IsGenerated() && !c.Hidden {
			names = append(names, "`"+c.Name.O+"`")
		}
	}
	if !info.PKIsHandle && !info.IsCommonHandle {
		names = append(names, "_tidb_rowid")
	}
	list := strings.Join(names, ", ")
	d.ours.run("set tidb_opt_write_row_id = on, allow_auto_random_explicit_insert = on, tidb_row_format_version = 2")
	d.ours.run("delete from t")
	if got := d.entries(info, added(info), 0); len(got) > 0 {
		d.failf("entries of deleted rows", "%s", differences(nil, got))
	}
	if err := d.ours.try("insert into t (" + list + ") select " + list + " from theirs.t"); err != nil {
		d.causes["dml: "+message(err)[:4]]++
		return
	}
	d.written++
	d.requireSame("written by DML", want, d.entries(info, added(info), 0))
}
