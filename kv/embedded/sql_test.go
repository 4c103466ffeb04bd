package embedded

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/domain"
	"github.com/pingcap/tidb/pkg/session"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv/pebblekv"
)

// Statistics are read at the start while other sessions of TiDB's may use them, which is a race that is not ours.
func init() { session.DisableStats4Test() }

// sqlStore is a store with TiDB on it.
type sqlStore struct {
	*Store
	t      *testing.T
	domain *domain.Domain
}

func openSQL(t *testing.T, dir string, fs vfs.FS) *sqlStore {
	t.Helper()
	s, err := Open(dir, Options{Pebble: pebblekv.Options{FS: fs}})
	require.NoError(t, err)
	d, err := session.BootstrapSession(s.Storage())
	require.NoError(t, err)
	return &sqlStore{Store: s, t: t, domain: d}
}

func (s *sqlStore) close() {
	s.domain.Close()
	require.NoError(s.t, s.Close())
}

func (s *sqlStore) session() sessiontypes.Session {
	se, err := session.CreateSession(s.Storage())
	require.NoError(s.t, err)
	return se
}

// query runs a statement and returns its rows, written out.
func query(se sessiontypes.Session, sql string) (rows [][]string, err error) {
	ctx := context.Background()
	sets, err := se.Execute(ctx, sql)
	if err != nil {
		return nil, err
	}
	for _, rs := range sets {
		chunks, err := session.GetRows4Test(ctx, se, rs)
		if err != nil {
			return nil, err
		}
		for _, row := range chunks {
			var out []string
			for i, f := range rs.Fields() {
				d := row.GetDatum(i, &f.Column.FieldType)
				text, err := d.ToString()
				if err != nil {
					text = "NULL"
				}
				out = append(out, text)
			}
			rows = append(rows, out)
		}
		if err := rs.Close(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func mustQuery(t *testing.T, se sessiontypes.Session, sql string) [][]string {
	t.Helper()
	rows, err := query(se, sql)
	require.NoError(t, err, sql)
	return rows
}

func TestSQL(t *testing.T) {
	dir := t.TempDir()
	s := openSQL(t, dir, nil)
	se := s.session()
	mustQuery(t, se, "create table test.t (a int primary key, b int, c varchar(20), key (b))")
	mustQuery(t, se, "insert into test.t values (1, 10, 'x'), (2, 20, 'y'), (3, 10, 'z')")
	require.Equal(t, [][]string{{"10", "2"}, {"20", "1"}}, mustQuery(t, se, "select b, count(*) from test.t group by b order by b"))
	mustQuery(t, se, "begin")
	mustQuery(t, se, "update test.t set b = b + 1 where c = 'x'")
	mustQuery(t, se, "delete from test.t where a = 2")
	mustQuery(t, se, "commit")
	se.Close()
	s.close()

	s = openSQL(t, dir, nil)
	se = s.session()
	require.Equal(t, [][]string{{"3", "10"}, {"1", "11"}}, mustQuery(t, se, "select a, b from test.t use index (b) where b > 0 order by b"))
	mustQuery(t, se, "admin check table test.t")
	mustQuery(t, se, "analyze table test.t")
	mustQuery(t, se, "split table test.t between (0) and (1000000) regions 8")
	require.Len(t, mustQuery(t, se, "select * from test.t"), 2)
	mustQuery(t, se, "truncate table test.t")
	require.Empty(t, mustQuery(t, se, "select * from test.t"))
	_, err := query(se, "flashback cluster to timestamp '2020-01-01 00:00:00'")
	require.Error(t, err)
	mustQuery(t, se, "create resource group g ru_per_sec = 1000")
	require.NotEmpty(t, mustQuery(t, se, "select * from information_schema.resource_groups"))
	se.Close()
	s.close()
}

// TestEndAnalyses: who stops the server waits for no request that makes statistics, which TiDB does not end by itself.
func TestEndAnalyses(t *testing.T) {
	s := openSQL(t, t.TempDir(), nil)
	defer s.close()
	se := s.session()
	defer se.Close()
	mustQuery(t, se, "create table test.t (a int primary key, b int, key (b))")
	mustQuery(t, se, "insert into test.t values (1, 10), (2, 20)")
	mustQuery(t, se, "analyze table test.t")
	running, end := s.service.analyzing(t.Context())
	defer end()
	require.NoError(t, running.Err())

	s.EndAnalyses()
	<-running.Done()
	_, err := query(se, "analyze table test.t")
	require.ErrorContains(t, err, "context canceled")
	require.Equal(t, [][]string{{"2"}}, mustQuery(t, se, "select count(*) from test.t use index (b)"))
}

// TestSQLManyGroups asks for more groups and more first rows than a batch of the coprocessor
// has, in one region.
func TestSQLManyGroups(t *testing.T) {
	s := openSQL(t, t.TempDir(), nil)
	defer s.close()
	se := s.session()
	defer se.Close()
	mustQuery(t, se, "create table test.t (a int primary key, b int, key (b))")
	mustQuery(t, se, "set cte_max_recursion_depth = 10000")
	mustQuery(t, se, "insert into test.t with recursive s(n) as (select 1 union all select n+1 from s where n < 5000) select n, n from s")
	for _, q := range []string{
		"select count(*) from (select /*+ hash_agg() agg_to_cop() */ b, count(*) from test.t ignore index (b) group by b) x",
		"select count(*) from (select /*+ stream_agg() agg_to_cop() */ b, count(*) from test.t use index (b) group by b) x",
		"select count(*) from (select distinct b from test.t ignore index (b)) x",
	} {
		require.Equal(t, [][]string{{"5000"}}, mustQuery(t, se, q), q)
	}
	require.Equal(t, [][]string{{"2001"}, {"2002"}}, mustQuery(t, se, "select /*+ limit_to_cop() */ a from test.t ignore index (b) order by b limit 2 offset 2000"))
}

// Statements that are to be pipelined are executed as others are.
func TestSQLBulkDML(t *testing.T) {
	s := openSQL(t, t.TempDir(), nil)
	defer s.close()
	se := s.session()
	defer se.Close()
	mustQuery(t, se, "create table test.t (a int primary key, b int, unique key (b))")
	mustQuery(t, se, "set tidb_dml_type = bulk")
	mustQuery(t, se, "insert into test.t values (1, 1), (2, 2), (3, 3)")
	mustQuery(t, se, "insert into test.t select a + 10, b + 10 from test.t")
	mustQuery(t, se, "update test.t set b = b + 100 where a > 10")
	mustQuery(t, se, "replace into test.t values (1, 2)")
	mustQuery(t, se, "delete from test.t where a = 3")
	_, err := query(se, "insert into test.t values (50, 50), (4, 111)")
	require.ErrorContains(t, err, "Duplicate entry '111' for key 't.b'")
	require.Equal(t, [][]string{{"1", "2"}, {"11", "111"}, {"12", "112"}, {"13", "113"}}, mustQuery(t, se, "select a, b from test.t order by a"))
	mustQuery(t, se, "admin check table test.t")
}

// TestSQLDivisionByZero divides where DML reads: the result depends on the mode as it does outside of the store.
func TestSQLDivisionByZero(t *testing.T) {
	s := openSQL(t, "db", vfs.NewMem())
	defer s.close()
	se := s.session()
	defer se.Close()
	mustQuery(t, se, "create table test.t (a int primary key, b int)")
	mustQuery(t, se, "insert into test.t values (1, 0), (2, 1)")
	for _, update := range []string{"update test.t set b = b where a % b = 0", "insert into test.t select a + 100, b from test.t where a % b = 3"} {
		mustQuery(t, se, "set sql_mode = 'STRICT_TRANS_TABLES'")
		mustQuery(t, se, update)
		require.Empty(t, mustQuery(t, se, "show warnings"), update)
		mustQuery(t, se, "set sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO'")
		_, err := query(se, update)
		require.ErrorContains(t, err, "Division by 0", update)
		mustQuery(t, se, "set sql_mode = 'ERROR_FOR_DIVISION_BY_ZERO'")
		mustQuery(t, se, update)
		require.Len(t, mustQuery(t, se, "show warnings"), 1, update)
	}
}

// TestSQLDeadlock checks that one of two sessions which wait for each other gives up, and that the wait can be seen.
func TestSQLDeadlock(t *testing.T) {
	s := openSQL(t, "db", vfs.NewMem())
	defer s.close()
	setup := s.session()
	mustQuery(t, setup, "create table test.t (a int primary key, b int)")
	mustQuery(t, setup, "insert into test.t values (1, 0), (2, 0)")
	one, two := s.session(), s.session()
	for _, se := range []sessiontypes.Session{one, two} {
		mustQuery(t, se, "begin pessimistic")
	}
	mustQuery(t, one, "update test.t set b = 1 where a = 1")
	mustQuery(t, two, "update test.t set b = 2 where a = 2")
	waiting := make(chan error, 1)
	go func() {
		_, err := query(one, "update test.t set b = 1 where a = 2")
		waiting <- err
	}()
	require.Eventually(t, func() bool {
		waits, err := s.Storage().GetLockWaits()
		return err == nil && len(waits) == 1
	}, time.Minute, time.Millisecond)
	_, err := query(two, "update test.t set b = 2 where a = 1")
	require.ErrorContains(t, err, "Deadlock")
	mustQuery(t, two, "rollback")
	require.NoError(t, <-waiting)
	mustQuery(t, one, "commit")
	require.Equal(t, [][]string{{"1"}, {"1"}}, mustQuery(t, setup, "select b from test.t order by a"))
	_, err = query(setup, "select * from test.t for update nowait")
	require.NoError(t, err)
}

const (
	sqlAccounts = 20
	sqlBalance  = 100
)

// sqlBank moves money about by SQL, in autocommit, optimistic and pessimistic transactions.
type sqlBank struct {
	*sqlStore
	mu    sync.Mutex
	acked map[int]bool
}

// transfer is one transaction of one session. It reports what was acknowledged.
func (b *sqlBank) transfer(se sessiontypes.Session, rnd *rand.Rand, id int) {
	from, to := rnd.IntN(sqlAccounts), rnd.IntN(sqlAccounts)
	statements := []string{
		[]string{"begin optimistic", "begin pessimistic"}[rnd.IntN(2)],
		fmt.Sprintf("update test.account set balance = balance - 1 where id = %d", from),
		fmt.Sprintf("update test.account set balance = balance + 1 where id = %d", to),
		fmt.Sprintf("insert into test.ledger values (%d, %d, %d)", id, from, to),
		"commit",
	}
	for _, sql := range statements {
		if _, err := query(se, sql); err != nil {
			// Conflicts and deadlocks: part of the game.
			_, _ = query(se, "rollback")
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked[id] = true
}

// check reads everything at one timestamp.
func (b *sqlBank) check(se sessiontypes.Session) {
	b.mu.Lock()
	acked := len(b.acked)
	b.mu.Unlock()
	mustQuery(b.t, se, "begin")
	defer mustQuery(b.t, se, "commit")
	sum := mustQuery(b.t, se, "select sum(balance) from test.account")
	require.Equal(b.t, strconv.Itoa(sqlAccounts*sqlBalance), sum[0][0])
	n, err := strconv.Atoi(mustQuery(b.t, se, "select count(*) from test.ledger")[0][0])
	require.NoError(b.t, err)
	require.GreaterOrEqual(b.t, n, acked, "what was acknowledged is seen")
	wrong := mustQuery(b.t, se, `select a.id, a.balance, x.d from test.account a left join
		(select id, sum(d) d from (select src id, -1 d from test.ledger union all select dst, 1 from test.ledger) m group by id) x
		on a.id = x.id where a.balance <> 100 + ifnull(x.d, 0)`)
	require.Empty(b.t, wrong)
}

// TestSQLBank runs transfers, takes the store away under them as a crash would, and looks at what is left.
func TestSQLBank(t *testing.T) {
	seed := randtest.Seed(t)
	mem := vfs.NewCrashableMem()
	b := &sqlBank{sqlStore: openSQL(t, "db", mem), acked: make(map[int]bool)}
	se := b.session()
	mustQuery(t, se, "create table test.account (id int primary key, balance int, key (balance))")
	mustQuery(t, se, "create table test.ledger (id int primary key, src int, dst int)")
	for i := range sqlAccounts {
		mustQuery(t, se, fmt.Sprintf("insert into test.account values (%d, %d)", i, sqlBalance))
	}
	mustQuery(t, se, "split table test.account by (5), (10), (15)")
	deadline := time.Now().Add(3 * time.Second)
	done := func() bool { // on a slow machine a transfer takes longer
		b.mu.Lock()
		defer b.mu.Unlock()
		return time.Now().After(deadline) && len(b.acked) > 0
	}
	var wg sync.WaitGroup
	for i := range 6 {
		worker, rnd := b.session(), rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for n := 0; !done(); n++ {
				b.transfer(worker, rnd, n*10+i)
			}
		})
	}
	type crash struct {
		fs    *vfs.MemFS
		acked []int
	}
	var crashes []crash
	for !done() {
		b.check(se)
		c := crash{}
		b.mu.Lock()
		for id := range b.acked {
			c.acked = append(c.acked, id)
		}
		b.mu.Unlock()
		c.fs = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, uint64(len(crashes))))})
		if len(crashes) < 3 {
			crashes = append(crashes, c)
		}
		time.Sleep(200 * time.Millisecond)
	}
	wg.Wait()
	b.check(se)
	mustQuery(t, se, "admin check table test.account")
	t.Logf("%d transfers", len(b.acked))
	require.NotEmpty(t, b.acked)
	se.Close()
	b.close()
	for _, c := range crashes {
		after := &sqlBank{sqlStore: openSQL(t, "db", c.fs), acked: make(map[int]bool)}
		se := after.session()
		after.check(se)
		for _, id := range c.acked {
			require.Len(t, mustQuery(t, se, fmt.Sprintf("select id from test.ledger where id = %d", id)), 1, "acknowledged and lost")
		}
		mustQuery(t, se, "admin check table test.account, test.ledger")
		se.Close()
		after.close()
	}
}
