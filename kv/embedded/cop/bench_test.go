package cop

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikvrpc"
)

const benchRows = 100_000

// benchQueries are sysbench's range queries, then scans of the whole table.
var benchQueries = []struct {
	name, sql string
	rows      int // that are read
}{
	{"range100", "select c from sbtest1 where id between 5000 and 5099", 100},
	{"sum100", "select sum(k) from sbtest1 where id between 5000 and 5099", 100},
	{"order100", "select c from sbtest1 where id between 5000 and 5099 order by c", 100},
	{"distinct100", "select distinct c from sbtest1 where id between 5000 and 5099 order by c", 100},
	{"points", "select c from sbtest1 where id in (1,20,400,8000,90,1000,11000,22222,3,44,5555,6666,77777,88,9999,100) or id between 30 and 31", 18},
	{"index", "select id from sbtest1 force index (k_1) where k between 20000 and 30000", 10000},
	{"indexchar", "select id from sbtest1 force index (k_2) where pad between '3' and '4'", 10000},
	{"scan", "select * from sbtest1", benchRows},
	{"count", "select count(*) from sbtest1", benchRows},
	{"sum", "select sum(k) from sbtest1", benchRows},
	{"filter", "select id from sbtest1 where k % 100 = 7 and c like '%77%'", benchRows},
	{"half", "select id from sbtest1 ignore index (k_1, k_2) where k between 25000 and 75000 and pad > '5'", benchRows},
	{"group", "select k % 1000, count(*), max(id) from sbtest1 group by k % 1000", benchRows},
	{"topn", "select id, c from sbtest1 order by c limit 100", benchRows},
}

// BenchmarkHandle measures requests of TiDB over data in memory, and the same requests on unistore, which also has its data
// in memory.
func BenchmarkHandle(b *testing.B) {
	env := newBenchEnv(b)
	run := func(name string, i int, send func(req *tikvrpc.Request) *coprocessor.Response) {
		b.Run(benchQueries[i].name+"/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if resp := send(env.requests[i]); resp.OtherError != "" {
					b.Fatal(resp.OtherError)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(benchQueries[i].rows), "ns/row")
		})
	}
	for i := range benchQueries {
		run("cop", i, func(req *tikvrpc.Request) *coprocessor.Response {
			return Handle(context.Background(), env.reader, req.Cop())
		})
		run("unistore", i, func(req *tikvrpc.Request) *coprocessor.Response {
			resp, err := env.session.oracle.Client.SendRequest(context.Background(), env.addr, req, time.Minute)
			require.NoError(b, err)
			return resp.Resp.(*coprocessor.Response)
		})
	}
}

type benchEnv struct {
	session  *sqlSession
	reader   *memReader
	requests []*tikvrpc.Request
	addr     string
}

func newBenchEnv(b *testing.B) *benchEnv {
	s := newSQLSession(b)
	s.exec(`create table sbtest1 (id int not null primary key auto_increment, k int not null default 0,
		c char(120) not null default '', pad char(60) not null default '', key k_1 (k), key k_2 (pad))`)
	rnd := rand.New(rand.NewSource(1))
	digits := func(groups int) string {
		parts := make([]string, groups)
		for i := range parts {
			parts[i] = fmt.Sprintf("%011d", rnd.Int63n(1e11))
		}
		return strings.Join(parts, "-")
	}
	for from := 1; from <= benchRows; from += 1000 {
		var values []string
		for id := from; id < from+1000; id++ {
			values = append(values, fmt.Sprintf("(%d,%d,'%s','%s')", id, rnd.Intn(benchRows), digits(10), digits(5)))
		}
		s.exec("insert into sbtest1 values " + strings.Join(values, ","))
	}
	env := &benchEnv{session: s, reader: &memReader{}}
	tableID := s.exec("select tidb_table_id from information_schema.tables where table_name = 'sbtest1'")[0][0]
	s.exec("set tidb_enable_paging = off")
	s.exec("set tidb_distsql_scan_concurrency = 1")
	for _, q := range benchQueries {
		s.oracle.capture = true
		s.exec(q.sql)
		s.oracle.capture = false
		var found []capturedRequest
		for _, c := range s.oracle.captured { // some are of background work on other tables
			if fmt.Sprint(tablecodec.DecodeTableID(c.req.Cop().Ranges[0].Start)) == tableID {
				found = append(found, c)
			}
		}
		require.Len(b, found, 1, q.sql)
		env.requests = append(env.requests, found[0].req)
		env.addr = found[0].addr
		s.oracle.captured = nil
	}
	seen := map[string]bool{}
	for _, req := range env.requests {
		r := &rpcReader{client: s.oracle.Client, addr: env.addr, req: req, timeout: time.Minute}
		for _, kr := range req.Cop().Ranges {
			require.NoError(b, r.Scan(context.Background(), kr.Start, kr.End, false, func(key, value []byte) (bool, error) {
				if !seen[string(key)] {
					seen[string(key)] = true
					env.reader.put(key, value)
				}
				return true, nil
			}))
		}
	}
	env.reader.sort()
	return env
}
