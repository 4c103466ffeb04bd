package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/pingcap/tidb/pkg/types"
	"golang.org/x/sync/errgroup"

	tkv "github.com/pingcap/tidb/pkg/kv"

	"fastddl/catalog"
	"fastddl/kv"
	"fastddl/server"
	"fastddl/table"
)

// createSQL is sysbench's table, without its secondary index.
const createSQL = `CREATE TABLE ` + tableName + ` (
  id INT NOT NULL AUTO_INCREMENT,
  k INT NOT NULL DEFAULT 0,
  c CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT '',
  PRIMARY KEY (id)
)`

// unitRows is the number of rows of one imported file, some 50 MB.
const unitRows = 250_000

// load fills the table with rows 1..rows: the keys and values that SQL would
// write, as files that are imported. It takes seconds where INSERT takes
// minutes, and leaves the store as it is after its compactions are done.
func load(ctx context.Context, node *server.Node, rows int, seed uint64, tempDir string) error {
	info, ok := node.Catalog.Current().Table(database, tableName)
	if !ok {
		return fmt.Errorf("table %s is not there", tableName)
	}
	version, err := node.Store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for first := 1; first <= rows; first += unitRows {
		last := min(first+unitRows-1, rows)
		g.Go(func() error {
			l := loader{store: node.Store, table: info, version: version, dir: tempDir, rows: rows}
			return l.loadUnit(gctx, first, last, rand.New(rand.NewPCG(seed, uint64(first))))
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return node.Catalog.AutoID(info).Rebase(ctx, uint64(rows))
}

type loader struct {
	store   kv.Store
	table   *catalog.Table
	version uint64
	dir     string
	rows    int
}

// loadUnit imports the rows first..last.
func (l *loader) loadUnit(ctx context.Context, first, last int, rng *rand.Rand) (err error) {
	w, err := l.store.NewImportWriter(ctx, kv.ImportOptions{Dir: l.dir, Version: l.version})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort() // the first error is what counts
		}
	}()
	tbl := table.Of(l.table)
	row := make([]types.Datum, 4)
	c, pad := make([]byte, 119), make([]byte, 59)
	for id := first; id <= last; id++ {
		fillDigits(rng, c)
		fillDigits(rng, pad)
		row[0].SetInt64(int64(id))
		row[1].SetInt64(1 + rng.Int64N(int64(l.rows)))
		row[2].SetString(string(c), "utf8mb4_bin")
		row[3].SetString(string(pad), "utf8mb4_bin")
		value, err := tbl.EncodeRow(row)
		if err != nil {
			return err
		}
		if err := w.Add(tbl.RecordKey(tkv.IntHandle(id)), value); err != nil {
			return err
		}
	}
	unit, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	return l.store.Import(ctx, []kv.ImportUnit{unit})
}

// fillDigits fills text as sysbench does: groups of eleven digits.
func fillDigits(rng *rand.Rand, text []byte) {
	var v uint64
	for i := range text {
		if i%12 == 11 {
			text[i] = '-'
			continue
		}
		if i%12 == 0 {
			v = rng.Uint64()
		}
		text[i] = byte('0' + v%10)
		v /= 10
	}
}
