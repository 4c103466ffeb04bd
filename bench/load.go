package bench

import (
	"context"
	"runtime"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"golang.org/x/sync/errgroup"

	"fastddl/kv"
	"fastddl/sbtest"
)

// unitBlocks is the number of the generator's blocks of one imported file, some 50 MB.
const unitBlocks = 25

// load fills the table with the generator's rows: the keys and values that SQL would
// write, as files that are imported. It takes seconds where INSERT takes
// minutes, and leaves the store as it is after its compactions are done.
func load(ctx context.Context, store kv.Store, info *model.TableInfo, rows sbtest.Generator, tempDir string) error {
	version, err := store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	l := loader{store: store, table: info, version: version, dir: tempDir, rows: rows}
	for first := 0; first < rows.Blocks(); first += unitBlocks {
		g.Go(func() error { return l.loadUnit(gctx, first, min(first+unitBlocks, rows.Blocks())) })
	}
	return g.Wait()
}

type loader struct {
	store   kv.Store
	table   *model.TableInfo
	version uint64
	dir     string
	rows    sbtest.Generator
}

// loadUnit imports the rows of the blocks first to last-1.
func (l *loader) loadUnit(ctx context.Context, first, last int) (err error) {
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
	for block := first; block < last; block++ {
		for row := range l.rows.Block(block) {
			key, value, err := encoder.encode(row)
			if err != nil {
				return err
			}
			if err := w.Add(key, value); err != nil {
				return err
			}
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
	table *model.TableInfo
	row   rowcodec.Encoder
	value []byte
}

// encode returns key and value of a row; both are valid until the next call.
func (e *rowEncoder) encode(r sbtest.Row) (key, value []byte, err error) {
	e.row.Enable = true
	columns := []int64{e.table.Columns[1].ID, e.table.Columns[2].ID, e.table.Columns[3].ID}
	datums := []types.Datum{types.NewIntDatum(r.K), types.NewStringDatum(string(r.C)), types.NewStringDatum(string(r.Pad))}
	e.value, err = e.row.Encode(time.UTC, columns, datums, nil, e.value[:0])
	return tablecodec.EncodeRowKeyWithHandle(e.table.ID, tkv.IntHandle(r.ID)), e.value, err
}
