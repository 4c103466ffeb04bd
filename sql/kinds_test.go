package sql_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/internal/randtest"
)

// tableKind is a kind of table with indexes to be added. In statements %[1]d is the
// ID of a row and %[2]d a number.
type tableKind struct {
	name, create string
	// before is executed once, before the table is made.
	before string
	insert string
	// update and remove are what writers do besides.
	update, remove string
	indexes        []string
}

const (
	plainInsert = "INSERT IGNORE INTO t (id, a, s) VALUES (%[1]d, %[2]d, CONCAT('Aß', %[2]d))"
	plainUpdate = "UPDATE IGNORE t SET a = IF(a = 5, NULL, %[2]d), s = CONCAT(LEFT(s, 2), %[2]d) WHERE id = %[1]d"
	plainRemove = "DELETE FROM t WHERE id = %[1]d"
	plainTable  = "CREATE TABLE t (id BIGINT, a INT, s VARCHAR(30) COLLATE utf8mb4_general_ci, "
)

// plainIndexes are built on most kinds of tables.
var plainIndexes = []string{"INDEX @ (a)", "UNIQUE INDEX @ (a, id)", "INDEX @ (s(3), a)", "UNIQUE INDEX @ ((LOWER(s)), (a + id), id)"}

var tableKinds = []tableKind{
	{name: "integer key", create: plainTable + "PRIMARY KEY (id))", indexes: plainIndexes},
	{name: "clustered key", create: plainTable + "PRIMARY KEY (s, id) CLUSTERED)", indexes: plainIndexes},
	{name: "other key", create: plainTable + "PRIMARY KEY (id) NONCLUSTERED) SHARD_ROW_ID_BITS = 4 PRE_SPLIT_REGIONS = 2", indexes: plainIndexes},
	{name: "no key", create: plainTable + "x INT) SHARD_ROW_ID_BITS = 6", indexes: plainIndexes[:1]},
	{
		name: "auto random", create: "CREATE TABLE t (r BIGINT PRIMARY KEY AUTO_RANDOM(5), id INT, a INT, s VARCHAR(30))",
		indexes: []string{"INDEX @ (a)", "UNIQUE INDEX @ (a, r)", "INDEX @ (s(3), a)", "INDEX @ ((a + r))"},
	},
	{
		name:   "time to live",
		create: plainTable + "at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id)) TTL = `at` + INTERVAL 1 DAY TTL_ENABLE = 'ON'",
		insert: "INSERT IGNORE INTO t VALUES (%[1]d, %[2]d, 's%[2]d', NOW() - INTERVAL %[2]d HOUR)", indexes: append(plainIndexes[:3:3], "INDEX @ (at)"),
	},
	{
		name: "refers to another", before: "CREATE TABLE parent (id INT PRIMARY KEY); INSERT INTO parent VALUES (1), (2), (3), (4), (5), (6), (7)",
		create: plainTable + "PRIMARY KEY (id), KEY (a), FOREIGN KEY (a) REFERENCES parent (id) ON DELETE SET NULL)", indexes: plainIndexes,
	},
	{
		name: "others refer to it", create: plainTable + `PRIMARY KEY (id));
			CREATE TABLE child (id INT PRIMARY KEY AUTO_INCREMENT, p BIGINT, FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE)`,
		insert: plainInsert + "; INSERT IGNORE INTO child (p) VALUES (%[1]d)", indexes: plainIndexes,
	},
	{
		name: "range partitions", create: plainTable + `PRIMARY KEY (id))
			PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (20), PARTITION p1 VALUES LESS THAN (40), PARTITION p2 VALUES LESS THAN MAXVALUE)`,
		update:  "UPDATE IGNORE t SET id = id + %[2]d, a = %[2]d WHERE id = %[1]d",
		indexes: append(plainIndexes[:4:4], "UNIQUE INDEX @ (s, a, id) GLOBAL"),
	},
	{
		name: "range partitions, global",
		create: `CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, s VARCHAR(30))
			PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (30), PARTITION p2 VALUES LESS THAN MAXVALUE)`,
		insert:  "INSERT IGNORE INTO t VALUES (%[1]d, %[1]d * 1000 + %[2]d, 's')",
		update:  "UPDATE IGNORE t SET id = id + 100, a = a + 100000 WHERE id = %[1]d",
		indexes: []string{"UNIQUE INDEX @ (a) GLOBAL"},
	},
	{
		name: "list partitions",
		create: `CREATE TABLE t (id BIGINT, a INT NOT NULL, s VARCHAR(30))
			PARTITION BY LIST (a) (PARTITION p0 VALUES IN (0, 1, 2, 3), PARTITION p1 VALUES IN (4, 5, 6))`,
		update:  "UPDATE IGNORE t SET a = %[2]d WHERE id = %[1]d",
		indexes: []string{"INDEX @ (a)", "INDEX @ (s(2), id)", "INDEX @ ((a * 2))"},
	},
	{
		name: "list columns partitions",
		create: plainTable + `k VARCHAR(5) AS (IF(id % 2, 'x', 'y')) STORED)
			PARTITION BY LIST COLUMNS (k) (PARTITION p0 VALUES IN ('x'), PARTITION p1 VALUES IN ('y'))`,
		indexes: []string{"INDEX @ (a, k)", "INDEX @ (k)"},
	},
	{name: "hash partitions", create: plainTable + "PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 5", indexes: plainIndexes},
	{name: "key partitions", create: plainTable + "PRIMARY KEY (s, id) CLUSTERED) PARTITION BY KEY (s) PARTITIONS 3", indexes: plainIndexes[:1]},
	{
		name: "JSON arrays", create: "CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, j JSON)",
		insert:  "INSERT IGNORE INTO t VALUES (%[1]d, %[2]d, JSON_ARRAY('%[1]d', 'x%[2]d', '%[1]d', 'same'))",
		update:  "UPDATE IGNORE t SET j = IF(%[2]d = 5, NULL, JSON_ARRAY('y%[1]d', '%[2]d')), a = %[2]d WHERE id = %[1]d",
		indexes: []string{"INDEX @ ((CAST(j AS CHAR(10) ARRAY)))", "INDEX @ (a, (CAST(j AS CHAR(20) ARRAY)))", "UNIQUE INDEX @ ((CAST(j AS CHAR(9) ARRAY)), id)"},
	},
	{
		name: "NULLs", create: "CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, b INT, c VARCHAR(10))",
		insert:  "INSERT IGNORE INTO t VALUES (%[1]d, IF(%[2]d < 3, NULL, %[1]d), IF(%[2]d > 4, NULL, %[2]d), NULL)",
		update:  "UPDATE IGNORE t SET a = IF(a IS NULL, id, NULL) WHERE id = %[1]d",
		indexes: []string{"UNIQUE INDEX @ (a)", "UNIQUE INDEX @ (a, b)", "UNIQUE INDEX @ (c)", "INDEX @ (b, a)", "INDEX @ (b DESC, c) INVISIBLE"},
	},
	{
		name: "expressions", create: plainTable + "g INT AS (a * 2), h VARCHAR(40) AS (CONCAT(s, id)) STORED, PRIMARY KEY (id))",
		indexes: []string{"INDEX @ (g, h(5))", "UNIQUE INDEX @ ((g + id), id)",
			"INDEX @ ((UPPER(h)), (a % 3), (REVERSE(s)))", "INDEX @ ((JSON_EXTRACT(JSON_ARRAY(a, id), '$[0]') = 3))"},
	},
}

// fill completes what a kind does not say.
func (k *tableKind) fill() {
	for _, d := range []struct {
		statement *string
		plain     string
	}{{&k.insert, plainInsert}, {&k.update, plainUpdate}, {&k.remove, plainRemove}} {
		if *d.statement == "" {
			*d.statement = d.plain
		}
	}
}

// write executes a statement that a writer may execute at any time.
func (k *tableKind) write(c *client, rng *rand.Rand) error {
	statement := []string{k.insert, k.insert, k.update, k.remove}[rng.IntN(4)]
	_, err := c.try(statement, rng.IntN(60), rng.IntN(7))
	if err == nil {
		return nil
	}
	switch code := errorCode(err); {
	case usual[code], code == 8028, code == 1526, code == 3903: // what else was written meanwhile, and values that suit no index
		_, err = c.try("ROLLBACK")
	}
	return err
}

// meta returns the definition of a table.
func (e *env) meta(table string) *model.TableInfo {
	e.t.Helper()
	tbl, err := e.Domain().InfoSchema().TableByName(context.Background(), pmodel.NewCIStr("test"), pmodel.NewCIStr(table))
	require.NoError(e.t, err)
	return tbl.Meta()
}

// physicalIDs are what the keys of a table's rows begin with.
func physicalIDs(info *model.TableInfo) []int64 {
	p := info.GetPartitionInfo()
	if p == nil {
		return []int64{info.ID}
	}
	var ids []int64
	for _, def := range p.Definitions {
		ids = append(ids, def.ID)
	}
	return ids
}

// eachPair calls fn for all that the store has under a prefix now, with what keys
// have behind it.
func (e *env) eachPair(prefix tidbkv.Key, fn func(rest, value []byte)) {
	e.t.Helper()
	version, err := e.store.Storage().CurrentVersion(tidbkv.GlobalTxnScope)
	require.NoError(e.t, err)
	it, err := e.store.Storage().GetSnapshot(version).Iter(prefix, prefix.PrefixNext())
	require.NoError(e.t, err)
	defer it.Close()
	for ; it.Valid(); require.NoError(e.t, it.Next()) {
		fn(it.Key()[len(prefix):], it.Value())
	}
}

// copyRows copies rows as they are stored into a table of the same definition.
func (e *env) copyRows(from, to string) {
	e.t.Helper()
	txn, err := e.store.Storage().Begin()
	require.NoError(e.t, err)
	into := physicalIDs(e.meta(to))
	for i, id := range physicalIDs(e.meta(from)) {
		prefix := tablecodec.GenTableRecordPrefix(into[i])
		e.eachPair(tablecodec.GenTableRecordPrefix(id), func(rest, value []byte) {
			require.NoError(e.t, txn.Set(append(prefix.Clone(), rest...), value))
		})
	}
	require.NoError(e.t, txn.Commit(context.Background()))
}

// indexEntries returns an index as the store has it: the number of the partition and
// what keys have behind the ID of the index, and values.
func (e *env) indexEntries(table, index string) map[string]string {
	e.t.Helper()
	info := e.meta(table)
	idx := info.FindIndexByName(index)
	require.NotNil(e.t, idx, index)
	ids := physicalIDs(info)
	if idx.Global {
		ids = []int64{info.ID}
	}
	found := make(map[string]string)
	for i, id := range ids {
		e.eachPair(tablecodec.EncodeTableIndexPrefix(id, idx.ID), func(rest, value []byte) {
			found[fmt.Sprintf("%d: %x", i, rest)] = fmt.Sprintf("%x", value)
		})
	}
	return found
}

// Every kind of index on every kind of table that we build, we build while the table
// is written to, and as TiDB does: entry by entry, byte by byte.
func TestKindsLikeTiDB(t *testing.T) {
	randtest.SkipShort(t)
	seed := randtest.Seed(t)
	e := newEnv(t)
	setup := e.client()
	setup.run("SET GLOBAL tidb_enable_dist_task = OFF")
	setup.run("SET GLOBAL tidb_ttl_job_enable = OFF") // rows are to expire only if the test says so
	for n, kind := range tableKinds {
		t.Run(kind.name, func(t *testing.T) {
			c := setup.of(t)
			kind.fill()
			c.run("DROP TABLE IF EXISTS child, t, parent")
			if kind.before != "" {
				c.run(kind.before)
			}
			c.run(kind.create)
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for range 150 {
				require.NoError(t, kind.write(c, rng))
			}
			var stop atomic.Bool
			var workers sync.WaitGroup
			failed := make(chan error, 3)
			for w := range 3 {
				writer, rng := e.client(), rand.New(rand.NewPCG(seed, uint64(1000*n+w+1)))
				workers.Go(func() {
					for !stop.Load() {
						if err := kind.write(writer, rng); err != nil {
							failed <- err
							return
						}
					}
				})
			}
			var adds []string
			for i, index := range kind.indexes {
				adds = append(adds, "ADD "+strings.ReplaceAll(index, "@", fmt.Sprintf("ours%d", i)))
			}
			c.run("DROP TABLE IF EXISTS copy")
			c.run("CREATE TABLE copy LIKE t")
			jobs := c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs")
			_, err := c.try("ALTER TABLE t " + strings.Join(adds, ", "))
			stop.Store(true)
			workers.Wait()
			require.NoError(t, err)
			require.NotEqual(t, jobs, c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"), "%v", c.run("SHOW WARNINGS"))
			require.Empty(t, failed)
			c.check("t")

			c.run("SET %s = '%s'", config.DDLEngine, config.EngineTiDB)
			defer c.run("SET %s = DEFAULT", config.DDLEngine)
			e.copyRows("t", "copy")
			c.run("ALTER TABLE copy " + strings.Join(adds, ", "))
			for i, index := range kind.indexes {
				name := fmt.Sprintf("ours%d", i)
				ours, theirs := e.indexEntries("t", name), e.indexEntries("copy", name)
				if strings.Contains(index, "GLOBAL") { // its entries have the IDs of partitions
					c.run("ALTER TABLE t ADD " + strings.ReplaceAll(index, "@", "theirs"))
					theirs = e.indexEntries("t", "theirs")
				}
				require.NotEmpty(t, ours)
				for key, value := range theirs {
					require.Equal(t, value, ours[key], "%s: %s", index, key)
				}
				require.Len(t, ours, len(theirs), index)
			}
		})
	}
}

// Tables that take no indexes are refused as TiDB refuses them.
func TestTablesThatTakeNoIndexes(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE cached (a INT, b INT)")
	c.run("ALTER TABLE cached CACHE")
	c.run("CREATE TEMPORARY TABLE mine (a INT, b INT)")
	c.run("CREATE GLOBAL TEMPORARY TABLE everybodys (a INT, b INT) ON COMMIT DELETE ROWS")
	c.run("CREATE VIEW v AS SELECT 1 AS a")
	c.run("CREATE SEQUENCE s")
	for _, statement := range []string{
		"ALTER TABLE cached ADD INDEX (a)", "CREATE INDEX i ON cached (a)", "ALTER TABLE cached ADD INDEX (a), DROP COLUMN b",
		"ALTER TABLE mine ADD INDEX (a)", "CREATE UNIQUE INDEX i ON mine (a)", "ALTER TABLE v ADD INDEX (a)", "ALTER TABLE s ADD INDEX (a)",
		"ALTER TABLE information_schema.tables ADD INDEX (table_name)",
	} {
		c.run("SET %s = '%s'", config.DDLEngine, config.EngineTiDB)
		_, theirs := c.try(statement)
		require.Error(t, theirs, statement)
		c.run("SET %s = DEFAULT", config.DDLEngine)
		_, ours := c.try(statement)
		require.Error(t, ours, statement)
		require.Equal(t, theirs.Error(), ours.Error(), statement)
	}
	c.run("ALTER TABLE everybodys ADD INDEX i (a)") // which has no rows that TiDB could miss
	require.Equal(t, "0", c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"))
	require.Equal(t, model.TempTableGlobal, e.meta("everybodys").TempTableType)
}

// An index on a generated column whose values depend on the session's time zone cannot be right while sessions of
// different zones write. The error says so.
func TestGeneratedColumnsOfTwoTimeZones(t *testing.T) {
	e := newEnv(t)
	c, w := e.client(), e.client()
	w.run("SET time_zone = '+10:00'")
	c.run("SET time_zone = '+00:00'")
	c.run("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP, d VARCHAR(30) AS (DATE_FORMAT(ts, '%Y-%m-%d %H')) VIRTUAL)")
	c.run("INSERT INTO t (id, ts) VALUES (1, '2026-01-01 20:00:00')")
	e.before("take-snapshot", "", func() { w.run("INSERT INTO t (id, ts) VALUES (2, '2026-01-02 20:00:00')") })
	_, err := c.try("ALTER TABLE t ADD INDEX di (d)")
	require.ErrorContains(t, err, "sessions whose time_zone or sql_mode gives its generated column another value")
	e.setHook(nil)
	c.check("t")
}

// Two instants that the clocks of the statement's zone show alike are two values of an index on a TIMESTAMP, also beside
// an expression that is computed in that zone.
func TestRepeatedHourBesideExpressions(t *testing.T) {
	c := newEnv(t).client()
	c.run("SET time_zone = 'UTC'")
	c.run("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP, name VARCHAR(20))")
	c.run("INSERT INTO t VALUES (1, '2024-11-03 05:30:00', 'a'), (2, '2024-11-03 06:30:00', 'b')")
	c.run("SET time_zone = 'America/New_York'")
	c.run("ALTER TABLE t ADD INDEX i (ts), ADD INDEX j ((LOWER(name)))")
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (ts), ADD INDEX k ((UPPER(name)), ts)")
	c.run("SET time_zone = 'UTC'")
	for _, index := range []string{"i", "u", "k"} {
		require.Equal(t, []string{"1 2024-11-03 05:30:00", "2 2024-11-03 06:30:00"}, c.run("SELECT id, ts FROM t USE INDEX (%s) WHERE ts > '2024-01-01' ORDER BY id", index))
	}
	c.check("t")
}

// Generated columns are evaluated by the variables of the statement's session, as DML evaluates them by its own.
func TestGeneratedColumnsBySettingsOfFunctions(t *testing.T) {
	c := newEnv(t).client()
	c.run("SET div_precision_increment = 10, default_week_format = 1, block_encryption_mode = 'aes-256-ecb', tidb_enable_fast_table_check = OFF")
	c.run(`CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, d DATE,
		q DECIMAL(40,20) AS (a / b) VIRTUAL, w INT AS (WEEK(d)) VIRTUAL)`)
	c.run("INSERT INTO t (id, a, b, d) VALUES (1, 1, 100001, '2026-01-01'), (2, 1, 100002, '2023-01-01')")
	c.run("ALTER TABLE t ADD UNIQUE INDEX qi (q), ADD INDEX wi (w)")
	c.run("ADMIN CHECK TABLE t")
	c.run("DELETE FROM t WHERE id = 1")
	c.run("ADMIN CHECK TABLE t")

	// ADMIN CHECK TABLE cannot evaluate these.
	c.run("CREATE TABLE secrets (id INT PRIMARY KEY, e VARBINARY(64) AS (AES_ENCRYPT(id, 'k')) VIRTUAL)")
	c.run("INSERT INTO secrets (id) VALUES (1)")
	c.run("ALTER TABLE secrets ADD INDEX ei (e)")
	require.Equal(t, "1", c.one("SELECT COUNT(*) FROM secrets USE INDEX (ei) WHERE e = AES_ENCRYPT(1, 'k')"))
}

// @@tidb_last_ddl_info names the statement once it has ended, with no number of TiDB's.
func TestLastDDLInfo(t *testing.T) {
	c := newEnv(t).client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	require.NotContains(t, c.one("SELECT @@tidb_last_ddl_info"), `"seq_num":0`)
	c.run("ALTER TABLE t ADD INDEX (a)")
	require.Equal(t, `{"query":"ALTER TABLE t ADD INDEX (a)","seq_num":0}`, c.one("SELECT @@tidb_last_ddl_info"))
}
