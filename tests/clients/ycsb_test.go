package clients

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/magiconair/properties"
	_ "github.com/pingcap/go-ycsb/db/mysql" // registers the database
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	_ "github.com/pingcap/go-ycsb/pkg/workload" // registers the workload
	"github.com/pingcap/go-ycsb/pkg/ycsb"
	"github.com/stretchr/testify/require"
)

const (
	ycsbRecords    = 1000
	ycsbOperations = 1000
	ycsbThreads    = 8
)

// ycsbWorkloads are the six standard ones, with their mix and distribution.
var ycsbWorkloads = map[string]map[string]string{
	"a": {prop.ReadProportion: "0.5", prop.UpdateProportion: "0.5", prop.RequestDistribution: "zipfian"},
	"b": {prop.ReadProportion: "0.95", prop.UpdateProportion: "0.05", prop.RequestDistribution: "zipfian"},
	"c": {prop.ReadProportion: "1", prop.UpdateProportion: "0", prop.RequestDistribution: "zipfian"},
	"d": {prop.ReadProportion: "0.95", prop.UpdateProportion: "0", prop.InsertProportion: "0.05", prop.RequestDistribution: "latest"},
	"e": {prop.ReadProportion: "0", prop.UpdateProportion: "0", prop.InsertProportion: "0.05", prop.ScanProportion: "0.95",
		prop.MaxScanLength: "100", prop.RequestDistribution: "zipfian"},
	"f": {prop.ReadProportion: "0.5", prop.UpdateProportion: "0", prop.ReadModifyWriteProportion: "0.5", prop.RequestDistribution: "zipfian"},
}

// TestYCSB loads and runs the workloads. None of their operations may fail, and
// a read that the workload makes finds its record, with the values that belong
// to it.
func TestYCSB(t *testing.T) {
	n := startServer(t)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		t.Run(name, func(t *testing.T) {
			database := newDatabase(t, n)
			loaded := runYCSB(t, n.Addr, database, ycsbWorkloads[name], false)
			require.EqualValues(t, ycsbRecords, loaded)
			done := runYCSB(t, n.Addr, database, ycsbWorkloads[name], true)
			require.GreaterOrEqual(t, done, int64(ycsbOperations))
			db := n.Open(database)
			mustExec(t, db, "ALTER TABLE usertable ADD INDEX f (FIELD0)")
			mustExec(t, db, "ADMIN CHECK TABLE usertable")
		})
	}
}

// runYCSB loads or runs a workload and returns how many operations succeeded.
func runYCSB(t *testing.T, addr, database string, mix map[string]string, transactions bool) int64 {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	p := properties.LoadMap(map[string]string{
		"mysql.host": host, "mysql.port": port, "mysql.db": database,
		prop.RecordCount: strconv.Itoa(ycsbRecords), prop.OperationCount: strconv.Itoa(ycsbOperations), prop.ThreadCount: strconv.Itoa(ycsbThreads),
		prop.DataIntegrity: "true", prop.FieldCount: "10", prop.LogInterval: "3600", prop.DoTransactions: strconv.FormatBool(transactions),
	})
	for key, value := range mix {
		_, _, err := p.Set(key, value)
		require.NoError(t, err)
	}
	measurement.InitMeasure(p)
	workload, err := ycsb.GetWorkloadCreator("core").Create(p)
	require.NoError(t, err)
	defer workload.Close()
	inner, err := ycsb.GetDBCreator("mysql").Create(p)
	require.NoError(t, err)
	db := &countingDB{DB: inner}
	defer db.Close()
	client.NewClient(p, workload, db).Run(context.Background())
	require.NoError(t, db.failure())
	return db.succeeded.Load()
}

// countingDB counts what succeeds, and keeps the first error, which the client
// of ycsb prints at most.
type countingDB struct {
	ycsb.DB
	succeeded atomic.Int64

	mu    sync.Mutex
	first error
}

func (d *countingDB) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first
}

func (d *countingDB) count(err error) error {
	if err == nil {
		d.succeeded.Add(1)
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first == nil {
		d.first = err
	}
	return err
}

func (d *countingDB) Read(ctx context.Context, table, key string, fields []string) (map[string][]byte, error) {
	row, err := d.DB.Read(ctx, table, key, fields)
	return row, d.count(err)
}

func (d *countingDB) Scan(ctx context.Context, table, start string, count int, fields []string) ([]map[string][]byte, error) {
	rows, err := d.DB.Scan(ctx, table, start, count, fields)
	return rows, d.count(err)
}

func (d *countingDB) Update(ctx context.Context, table, key string, values map[string][]byte) error {
	return d.count(d.DB.Update(ctx, table, key, values))
}

func (d *countingDB) Insert(ctx context.Context, table, key string, values map[string][]byte) error {
	return d.count(d.DB.Insert(ctx, table, key, values))
}
