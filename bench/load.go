package bench

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"golang.org/x/sync/errgroup"

	"fastddl/kv"
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
func load(ctx context.Context, store kv.Store, info *model.TableInfo, rows int, seed uint64, tempDir string) error {
	version, err := store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for first := 1; first <= rows; first += unitRows {
		last := min(first+unitRows-1, rows)
		g.Go(func() error {
			l := loader{store: store, table: info, version: version, dir: tempDir, rows: rows}
			return l.loadUnit(gctx, first, last, rand.New(rand.NewPCG(seed, uint64(first))))
		})
	}
	return g.Wait()
}

type loader struct {
	store   kv.Store
	table   *model.TableInfo
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
	encoder := rowEncoder{table: l.table}
	for id := first; id <= last; id++ {
		key, value, err := encoder.encode(id, 1+rng.Int64N(int64(l.rows)), rng)
		if err != nil {
			return err
		}
		if err := w.Add(key, value); err != nil {
			return err
		}
	}
	unit, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	return l.store.Import(ctx, []kv.ImportUnit{unit})
}

// rowEncoder encodes rows of the table as TiDB does: the columns but the key, in
// row format 2.
type rowEncoder struct {
	table  *model.TableInfo
	row    rowcodec.Encoder
	value  []byte
	c, pad [119]byte
}

// encode returns key and value of a row with random text; both are valid until the
// next call.
func (e *rowEncoder) encode(id int, k int64, rng *rand.Rand) (key, value []byte, err error) {
	fillDigits(rng, e.c[:])
	fillDigits(rng, e.pad[:59])
	e.row.Enable = true
	columns := []int64{e.table.Columns[1].ID, e.table.Columns[2].ID, e.table.Columns[3].ID}
	datums := []types.Datum{types.NewIntDatum(k), types.NewStringDatum(string(e.c[:])), types.NewStringDatum(string(e.pad[:59]))}
	e.value, err = e.row.Encode(time.UTC, columns, datums, nil, e.value[:0])
	return tablecodec.EncodeRowKeyWithHandle(e.table.ID, tkv.IntHandle(id)), e.value, err
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
