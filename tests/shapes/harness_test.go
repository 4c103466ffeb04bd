package shapes

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tidbconfig "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/session"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/util/chunk"
	tidbcodec "github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/logutil"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"

	"fastddl/backfill/worker"
	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/kv"
	"fastddl/kv/embedded"
	"fastddl/kv/pebblekv"
	"fastddl/kv/tikv"
	"fastddl/sql"
	"fastddl/sql/sqltest"
)

func TestMain(m *testing.M) {
	cfg := *tidbconfig.GetGlobalConfig()
	cfg.Instance.EnableSlowLog.Store(false)
	cfg.Performance.RunAutoAnalyze = false
	cfg.Experimental.AllowsExpressionIndex = true
	tidbconfig.StoreGlobalConfig(&cfg)
	if err := logutil.InitLogger(logutil.NewLogConfig("fatal", "text", "", "", logutil.EmptyFileLogConfig, false)); err != nil {
		panic(err)
	}
	session.SetSchemaLease(500 * time.Millisecond)
	session.DisableStats4Test()
	os.Exit(m.Run())
}

// env is a SQL layer on an embedded store, and the driver for TiKV over that store.
type env struct {
	t        testing.TB
	layer    *sql.Layer
	sessions *sqltest.Sessions
	store    *embedded.Store
	driver   *tikv.Store
	temp     string
	// useWorkers has entries of indexes built as by processes of their own, or not.
	useWorkers func(yes bool)
}

func newEnv(t *testing.T) *env {
	e := &env{t: t, temp: filepath.Join(t.TempDir(), "tmp")}
	var err error
	e.store, err = embedded.Open(filepath.Join(t.TempDir(), "db"), embedded.Options{Pebble: pebblekv.Options{DisableSync: true, CacheBytes: 64 << 20}})
	require.NoError(t, err)
	builds, globals := e.store.Builds(), config.NewGlobals()
	e.useWorkers = func(yes bool) {
		value := config.WorkerOff
		if yes {
			value = config.WorkerOn
		}
		_, _, err := globals.Set(config.Worker, value)
		require.NoError(t, err)
	}
	e.layer, err = sql.Open(context.Background(), sql.Options{
		Storage: e.store.Storage(), Builds: builds, TempDir: e.temp, Globals: globals,
		Ingester: worker.NewHost(worker.Options{Store: builds.(worker.Store), Globals: globals, Start: worker.Inside(nil)}),
	})
	require.NoError(t, err)
	e.sessions = sqltest.NewSessions(e.layer)
	e.driver, err = tikv.Open(e.store.Storage(), tikv.Options{Importer: directImporter{e.store.Builds()}, PageBytes: 2 << 10})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.driver.Close())
		require.NoError(t, e.layer.Close())
		require.NoError(t, e.store.Close())
	})
	return e
}

// directImporter imports into the embedded store, not over a network.
type directImporter struct{ kv.Store }

func (i directImporter) NewWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	return i.Store.NewImportWriter(ctx, opts)
}

func (directImporter) Busy() bool { return false }

// client is a session in a database of its own.
type client struct {
	e  *env
	db string
	s  sessiontypes.Session
}

func (e *env) client(db string) *client {
	s, err := e.sessions.Open()
	require.NoError(e.t, err)
	c := &client{e, db, s}
	c.run("create database if not exists " + db)
	c.run("use " + db)
	return c
}

func (c *client) try(query string) error {
	_, err := c.rows(query)
	return err
}

func (c *client) run(query string) {
	c.e.t.Helper()
	if err := c.try(query); err != nil {
		require.Failf(c.e.t, "statement failed", "%s: %s", query, err.Error())
	}
}

// rows runs a statement and returns the first column of its rows.
func (c *client) rows(query string) (out []string, err error) {
	results, err := c.s.Execute(context.Background(), query)
	for _, rs := range results {
		rows, drainErr := sqlexec.DrainRecordSet(context.Background(), rs, 1024)
		if err == nil {
			err = drainErr
		}
		for _, row := range rows {
			out = append(out, text(row))
		}
		_ = rs.Close()
	}
	return out, err
}

func text(row chunk.Row) string {
	if row.IsNull(0) {
		return "NULL"
	}
	return row.GetString(0)
}

// rowsPointer is what errors of our builds say in addition.
var rowsPointer = regexp.MustCompile(` \(rows listed in mysql\.fastddl_ddl_errors, job \d+\)`)

// message is the text of an error for a client.
func message(err error) string {
	if err == nil {
		return ""
	}
	if te := job.FindTerror(err); te != nil {
		e := terror.ToSQLError(te)
		return fmt.Sprintf("%d %s", e.Code, rowsPointer.ReplaceAllString(e.Message, ""))
	}
	return "1105 " + err.Error()
}

// table returns the definition of t, nil if there is none.
func (c *client) table() *model.TableInfo {
	tbl, err := c.e.layer.Domain().InfoSchema().TableByName(context.Background(), pmodel.NewCIStr(c.db), pmodel.NewCIStr("t"))
	if err != nil {
		return nil
	}
	return tbl.Meta()
}

// physicalIDs are what keys of a table begin with.
func physicalIDs(info *model.TableInfo) []int64 {
	ids := []int64{info.ID}
	if p := info.GetPartitionInfo(); p != nil {
		for _, def := range p.Definitions {
			ids = append(ids, def.ID)
		}
	}
	return ids
}

func (e *env) now() uint64 {
	ts, err := e.store.Builds().CurrentTS(context.Background())
	require.NoError(e.t, err)
	return ts
}

// read returns what the store has under prefixes, at a timestamp.
func (e *env) read(ts uint64, prefixes ...[]byte) map[string]string {
	snap, err := e.store.Builds().Snapshot(context.Background(), ts)
	require.NoError(e.t, err)
	defer snap.Close()
	all := make(map[string]string)
	for _, prefix := range prefixes {
		it, err := snap.Iter(kv.PrefixRange(prefix))
		require.NoError(e.t, err)
		for ; it.Valid(); require.NoError(e.t, it.Next()) {
			all[string(it.Key())] = string(it.Value())
		}
		require.NoError(e.t, it.Close())
	}
	return all
}

// records reads the rows of a table.
func (e *env) records(info *model.TableInfo) map[string]string {
	var prefixes [][]byte
	for _, id := range physicalIDs(info) {
		prefixes = append(prefixes, tablecodec.GenTableRecordPrefix(id))
	}
	return e.read(e.now(), prefixes...)
}

// entries reads indexes of a table, whose IDs are shifted. So that tables can be compared,
// physical IDs are replaced by numbers, and the IDs of indexes are not shifted any more.
func (e *env) entries(info *model.TableInfo, indexes []*model.IndexInfo, shift int64) map[string]string {
	all := make(map[string]string)
	ts := e.now()
	ids := physicalIDs(info)
	for _, idx := range indexes {
		for n, id := range ids {
			prefix := tablecodec.EncodeTableIndexPrefix(id, idx.ID+shift)
			for k, v := range e.read(ts, prefix) {
				k = k[len(prefix):]
				if idx.Global {
					k, v = neutral(k, ids), neutral(v, ids)
				}
				all[fmt.Sprintf("%d/%d/%x", idx.ID, n, k)] = fmt.Sprintf("%x", v)
			}
		}
	}
	return all
}

// neutral replaces the IDs of partitions, which entries of global indexes have behind a flag. Without it
// a column's value may be the same.
func neutral(s string, ids []int64) string {
	for n, id := range ids {
		s = strings.ReplaceAll(s, string(tidbcodec.EncodeInt([]byte{tablecodec.PartitionIDFlag}, id)), fmt.Sprintf("~part%04d", n))
	}
	return s
}

// copyRows gives a table the rows and entries of another one of the same definition.
func (e *env) copyRows(from, to *model.TableInfo) {
	ids := physicalIDs(to)
	pairs := make(map[string]string)
	for n, id := range physicalIDs(from) {
		prefix := tablecodec.EncodeTablePrefix(id)
		for k, v := range e.read(e.now(), prefix) {
			pairs[string(tablecodec.EncodeTablePrefix(ids[n]))+k[len(prefix):]] = v
		}
	}
	e.write(pairs, nil)
}

// write puts and deletes pairs in one transaction.
func (e *env) write(pairs map[string]string, remove []string) {
	txn, err := e.store.Storage().Begin()
	require.NoError(e.t, err)
	for k, v := range pairs {
		require.NoError(e.t, txn.Set([]byte(k), []byte(v)))
	}
	for _, k := range remove {
		require.NoError(e.t, txn.Delete([]byte(k)))
	}
	require.NoError(e.t, txn.Commit(context.Background()))
}

// cut makes some regions of a table's rows.
func (e *env) cut(r *rand.Rand, info *model.TableInfo) {
	keys := slices.Sorted(maps.Keys(e.records(info)))
	var cuts [][]byte
	for range r.IntN(4) {
		if len(keys) > 0 {
			cuts = append(cuts, codec.EncodeBytes(nil, []byte(keys[r.IntN(len(keys))])))
		}
	}
	if len(cuts) == 0 {
		return
	}
	slices.SortFunc(cuts, bytes.Compare)
	_, err := e.store.PDClient().SplitRegions(context.Background(), slices.CompactFunc(cuts, bytes.Equal))
	require.NoError(e.t, err)
}

// differences names a few entries that differ.
func differences(want, got map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[k]; !ok {
			all = append(all, fmt.Sprintf("missing %s = %s", k, want[k]))
		} else if g != want[k] {
			all = append(all, fmt.Sprintf("%s = %s, want %s", k, g, want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			all = append(all, fmt.Sprintf("too many %s = %s", k, got[k]))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d entries differ:\n%s", len(all), len(want), strings.Join(all[:min(6, len(all))], "\n"))
}
