package cluster

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestAdminFromTiDB: on a plain tidb-server a build of ours is a paused job: CANCEL cancels it, nothing else touches it,
// and nothing of it is left.
func TestAdminFromTiDB(t *testing.T) {
	t.Parallel()
	c, first, _, plain := plainCluster(t, true)
	a := first.open()
	for range 2 {
		done, goOn := stuckBuild(t, c, a, "ALTER TABLE t ADD INDEX v (v), ADD UNIQUE INDEX u (s)")
		id := a.lastJob("job_id")
		shown := plain.shown(id)
		require.Equal(t, "paused", shown["STATE"], "%v", shown)
		require.Contains(t, plain.rows("ADMIN PAUSE DDL JOBS " + id)[0]["RESULT"], "[ddl:8262]") // it is paused already
		require.Error(t, plain.try("ADMIN ALTER DDL JOBS "+id+" THREAD = 2"))
		require.Contains(t, plain.rows("ADMIN RESUME DDL JOBS " + id)[0]["RESULT"], "paused by [None], should not resumed by [EndUser]")
		require.Equal(t, "running", a.shown(id)["STATE"])
		require.Equal(t, "successful", plain.rows("ADMIN CANCEL DDL JOBS " + id)[0]["RESULT"])
		require.ErrorContains(t, await(t, done), "Cancelled DDL job")
		goOn()
		for _, db := range []client{a, plain.client} {
			require.Empty(t, db.rows("SHOW INDEX FROM t WHERE key_name IN ('v', 'u')"))
		}
		// Which version the job's first row waited for is forgotten when TiDB has ended that row.
		eventually(t, "versions are forgotten", func() bool { return len(a.rows("SELECT * FROM mysql.tidb_mdl_info")) == 0 })
		a.nothingIsLeft()
	}
	plain.exec("ALTER TABLE t ADD COLUMN w INT", "ADMIN CHECK TABLE t")
}

// upgrade tells a server to begin or end a smooth upgrade, as tiup does.
func upgrade(t *testing.T, status, op string) {
	t.Helper()
	resp, err := http.Post("http://"+status+"/upgrade/"+op, "", nil)
	require.NoError(t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(answer), "success")
}

// TestSmoothUpgrade: a build that is under way when the cluster is being upgraded goes on
// and ends; TiDB, which pauses all jobs, leaves it as it is. What is asked for meanwhile is
// left to TiDB, which does it after the upgrade.
func TestSmoothUpgrade(t *testing.T) {
	t.Parallel()
	c, first, second, plain := plainCluster(t, true)
	a, b := first.open(), second.open()
	done, goOn := stuckBuild(t, c, a, "ALTER TABLE t ADD UNIQUE INDEX v (v)")
	upgrade(t, plain.status, "start")
	change(b, plain.client)
	require.Equal(t, "running", b.shown(b.lastJob("job_id"))["STATE"])
	goOn()
	require.NoError(t, await(t, done))
	jobs := "SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"
	before := b.value(jobs)
	late := b.later("ALTER TABLE t ADD INDEX s (s)")
	eventually(t, "the late one is TiDB's, and waits", func() bool {
		return b.value("SELECT COUNT(*) FROM mysql.tidb_ddl_job WHERE CONVERT(job_meta USING utf8mb4) LIKE '%ADD INDEX s%'") == "1"
	})
	upgrade(t, plain.status, "finish")
	require.NoError(t, await(t, late))
	require.Equal(t, before, b.value(jobs))
	for _, db := range []client{a, b, plain.client} {
		db.exec("ADMIN CHECK TABLE t")
		require.Len(t, db.rows("SHOW INDEX FROM t WHERE key_name IN ('v', 's')"), 2)
	}
	b.nothingIsLeft()
}

// TestChangefeed: TiCDC takes statements from jobs of TiDB's own types, so that index builds are left to TiDB while there
// is a changefeed, a paused or a waiting one too, and the statement says so.
func TestChangefeed(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	pd, err := c.Open()
	require.NoError(t, err)
	etcd := etcdOf(t, pd)
	db := startNode(t, c).open()
	fill(db, "t", 100)
	jobs := "SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"
	for i, state := range []string{"", "normal", "pending", "stopped", "failed", "finished"} {
		const key = "/tidb/cdc/default/default/changefeed/info/orders"
		if state != "" {
			_, err := etcd.Put(t.Context(), key, `{"state":"`+state+`","start-ts":1}`)
			require.NoError(t, err)
		}
		ours := state == "" || state == "finished"
		before, conn := db.value(jobs), db.session()
		must(t, conn, fmt.Sprintf("ALTER TABLE t ADD COLUMN c%d INT DEFAULT 7, ADD INDEX i%d (v)", i, i))
		require.Equal(t, ours, db.value(jobs) != before, state)
		var level, note string
		var code int
		err := conn.QueryRowContext(t.Context(), "SHOW WARNINGS").Scan(&level, &code, &note)
		if ours {
			require.ErrorIs(t, err, sql.ErrNoRows)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "the index is built by TiDB's own way: TiCDC takes statements from TiDB only, "+
			"for the changefeeds default/default/orders", note, state)
	}
	db.exec("ADMIN CHECK TABLE t")
}

// TestTiFlashReplica: a table with a replica in TiFlash gets its indexes in TiKV, and keeps
// the record of its replica.
func TestTiFlashReplica(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	n := startNode(t, c)
	db := n.open()
	fill(db, "t", 2000)
	// There is no TiFlash to make one: the record is written as TiDB does when it has.
	id := db.value("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = 'test' AND table_name = 't'")
	storage := openStorage(t, c)
	ctx := tidbkv.WithInternalSourceType(context.Background(), tidbkv.InternalTxnDDL)
	require.NoError(t, tidbkv.RunInNewTxn(ctx, storage, true, func(_ context.Context, txn tidbkv.Transaction) error {
		m := meta.NewMutator(txn)
		databases, err := m.ListDatabases()
		require.NoError(t, err)
		for _, database := range databases {
			tables, err := m.ListTables(ctx, database.ID)
			require.NoError(t, err)
			for _, table := range tables {
				if database.Name.L != "test" || table.Name.L != "t" {
					continue
				}
				table.TiFlashReplica = &model.TiFlashReplicaInfo{Count: 1, Available: true}
				require.NoError(t, m.UpdateTable(database.ID, table))
				version, err := m.GenSchemaVersion()
				require.NoError(t, err)
				return m.SetSchemaDiff(&model.SchemaDiff{
					Version: version, Type: model.ActionSetTiFlashReplica, SchemaID: database.ID, TableID: table.ID,
				})
			}
		}
		require.FailNow(t, "no table", id)
		return nil
	}))
	const replica = "SELECT CONCAT(replica_count, available) FROM information_schema.tiflash_replica WHERE table_name = 't'"
	shown := func() bool {
		rows := db.rows(replica)
		return len(rows) == 1 && strings.Contains(db.value(replica), "11")
	}
	db.exec("CREATE TABLE other (id INT)") // whose version has the servers look
	eventually(t, "the replica is known", shown)
	before := imported(c)
	db.exec("ALTER TABLE t ADD INDEX v (v), ADD UNIQUE INDEX u (s)", "ADMIN CHECK TABLE t")
	requireImports(t, c, before)
	require.True(t, shown())
	require.Equal(t, "2000", db.value("SELECT /*+ READ_FROM_STORAGE(TIKV[t]) */ COUNT(*) FROM t USE INDEX (v) WHERE v > 0"))
	db.nothingIsLeft()
}

// TestImportFromSelectOnTiDB: a build waits for rows that IMPORT INTO ... FROM SELECT brings in on a plain tidb-server,
// which has no job for it and does not ask it for the metadata lock.
func TestImportFromSelectOnTiDB(t *testing.T) {
	t.Parallel()
	needsImport(t)
	c := anyCluster(t)
	n := startNode(t, c)
	a := n.open()
	plain := startTiDB(t, c, n.database)
	a.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE other (id INT PRIMARY KEY, v INT)")
	fill(a, "source", 100)
	const release = "importing"
	holder := a.session()
	must(t, holder, "DO GET_LOCK('"+release+"', 0)")
	imported := plain.later("IMPORT INTO t FROM SELECT id, v FROM source WHERE id > 1 OR GET_LOCK('" + release + "', 600)")
	eventually(t, "the import runs", func() bool {
		return a.value("SELECT COUNT(*) FROM information_schema.cluster_processlist WHERE info LIKE 'IMPORT INTO t FROM%'") == "1"
	})
	a.exec("ALTER TABLE other ADD INDEX v (v)") // does not wait
	done := a.later("ALTER TABLE t ADD INDEX v (v)")
	eventually(t, "the build waits for it", func() bool {
		return a.lastJob("wait_reason") == "IMPORT INTO the table, a statement on "+plain.status
	})
	must(t, holder, "DO RELEASE_LOCK('"+release+"')")
	if err := await(t, imported); err != nil {
		// TiDB has made entries of an index that is not public yet, and does not count them in the store
		// (br/pkg/checksum/executor.go). The rows are there nevertheless.
		require.ErrorContains(t, err, "checksum mismatched")
	}
	require.NoError(t, await(t, done))
	a.exec("ADMIN CHECK TABLE t")
	for _, index := range []string{"", "v"} {
		require.Equal(t, "100", a.value("SELECT COUNT(*) FROM t USE INDEX ("+index+") WHERE v > 0"))
	}
}

// TestServerThatDoesNotSayWhatItImports: a server that cannot be asked for its statements may execute IMPORT INTO ... FROM SELECT. A
// build waits for it until its registration ends, whether its machine refuses the connection or says nothing.
func TestServerThatDoesNotSayWhatItImports(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	pd, err := c.Open()
	require.NoError(t, err)
	etcd := etcdOf(t, pd)
	n := startNode(t, c)
	a := n.open()
	plain := startTiDB(t, c, n.database)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts and says nothing
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	closed := freePort(t)
	_, silentPort, err := net.SplitHostPort(silent.Addr().String())
	require.NoError(t, err)
	fill(a, "source", 100)
	for _, statusPort := range []string{closed, silentPort} {
		a.exec("DROP TABLE IF EXISTS t", "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
		release := "importing beside " + statusPort // a connection keeps the lock that it has got
		holder := a.session()
		must(t, holder, "DO GET_LOCK('"+release+"', 0)")
		imported := plain.later("IMPORT INTO t FROM SELECT id, v FROM source WHERE id > 1 OR GET_LOCK('" + release + "', 600)")
		eventually(t, "the import runs", func() bool {
			return a.value("SELECT COUNT(*) FROM information_schema.cluster_processlist WHERE info LIKE 'IMPORT INTO t FROM%'") == "1"
		})
		done := a.later("ALTER TABLE t ADD INDEX v (v)")
		eventually(t, "the build waits for it", func() bool {
			return strings.HasPrefix(a.lastJob("wait_reason"), "IMPORT INTO the table, a statement on ")
		})
		// The schema versions of the build are done with. A server that was registered before would have had to report them.
		stranger := registerServer(t, etcd, statusPort)
		must(t, holder, "DO RELEASE_LOCK('"+release+"')")
		if err := await(t, imported); err != nil {
			require.ErrorContains(t, err, "checksum mismatched")
		}
		eventually(t, "the build waits for the server", func() bool {
			return strings.HasPrefix(a.lastJob("wait_reason"), "other servers to say what they import: ")
		})
		stranger()
		require.NoError(t, await(t, done))
		a.exec("ADMIN CHECK TABLE t")
	}
}

// registerServer registers a SQL server that is not there, like one that is there but for its status port, until end is called.
func registerServer(t *testing.T, etcd *clientv3.Client, statusPort string) (end func()) {
	t.Helper()
	const servers = "/tidb/server/info/"
	found, err := etcd.Get(t.Context(), servers, clientv3.WithPrefix())
	require.NoError(t, err)
	require.NotEmpty(t, found.Kvs)
	var info map[string]any
	require.NoError(t, json.Unmarshal(found.Kvs[0].Value, &info))
	port, err := strconv.Atoi(statusPort)
	require.NoError(t, err)
	info["ddl_id"], info["ip"], info["status_port"], info["listening_port"] = "stranger", "127.0.0.1", port, port
	value, err := json.Marshal(info)
	require.NoError(t, err)
	key := servers + "stranger"
	_, err = etcd.Put(t.Context(), key, string(value))
	require.NoError(t, err)
	return func() {
		_, err := etcd.Delete(t.Context(), key)
		require.NoError(t, err)
	}
}
