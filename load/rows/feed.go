package rows

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pingcap/tidb/pkg/executor/importer"
	lkv "github.com/pingcap/tidb/pkg/lightning/backend/kv"
	"github.com/pingcap/tidb/pkg/lightning/common"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/store/driver/txn"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/internal/errs"
	"fastddl/load/conflict"
)

// Feed is a source of rows that one goroutine adds in their order, as TiDB's executor would add them to the table: LOAD DATA. Add and
// End are called by that goroutine, the rest by readers.
type Feed struct {
	policy      conflict.Policy
	disk        FeedDisk
	source      *Source
	ids         *IDs
	enc         *encoder
	constraints []*table.Constraint
	spool       *conflict.Spool // nil if rows are passed on as they come

	opened  bool
	ready   chan struct{} // closed when rows can be added
	ended   chan struct{} // closed when the last row was added
	batches chan *feedBatch
	filling *feedBatch
	reading *feedBatch
	pairs   []common.KvPair
	result  conflict.Result
}

// FeedDisk is where rows are kept until it is known which of them stay.
type FeedDisk struct {
	Dir string
	// Occupy is that of conflict.Options.
	Occupy func(bytes int64) error
	// MaxState is that of conflict.Options.
	MaxState int64
}

// NewFeed returns a feed without rows. Of rows with equal keys the policy says which are loaded.
func NewFeed(policy conflict.Policy) *Feed {
	return &Feed{policy: policy, ready: make(chan struct{}), ended: make(chan struct{}), batches: make(chan *feedBatch, 4)}
}

// FromFeed returns a source of the rows of f, in one chunk.
func FromFeed(c *importer.LoadDataController, info *model.TableInfo, f *Feed, disk FeedDisk) (*Source, error) {
	s, err := newSource(c, info)
	if err != nil {
		return nil, err
	}
	f.constraints = s.target.WritableConstraint()
	// Rows that violate a constraint are encoded as well: they replace others.
	unconstrained := info.Clone()
	unconstrained.Constraints = nil
	if s.target, err = tables.TableFromMeta(lkv.NewPanickingAllocators(info.SepAutoInc()), unconstrained); err != nil {
		return nil, fmt.Errorf("load: table %s: %w", info.Name.O, err)
	}
	s.feed, f.source, f.disk = f, s, disk
	s.chunks = []Chunk{{End: -1, Now: s.now}}
	return s, nil
}

// open makes the feed take rows.
func (f *Feed) open(now int64, ids *IDs) (err error) {
	if f.opened {
		return nil
	}
	f.opened, f.ids = true, ids
	if f.enc, err = f.source.newEncoder(fields{}, now, ids); err != nil {
		return err
	}
	if hasUniqueKeys(f.source.table) {
		if f.spool, err = conflict.New(conflict.Options{
			Dir: f.disk.Dir, Policy: f.policy, Unique: f.unique, Exists: f.exists, Occupy: f.disk.Occupy, MaxState: f.disk.MaxState,
			MaxWarnings: maxFeedWarnings,
		}); err != nil {
			return err
		}
	}
	close(f.ready)
	return nil
}

// maxFeedWarnings is how many warnings a statement of TiDB's has at most.
const maxFeedWarnings = 1<<16 - 1

// hasUniqueKeys says that two rows of a table may be in conflict.
func hasUniqueKeys(t *model.TableInfo) bool {
	if t.HasClusteredIndex() {
		return true
	}
	for _, idx := range t.Indices {
		if idx.Unique {
			return true
		}
	}
	return false
}

// unique is that of conflict.Options.
func (f *Feed) unique(key []byte) (index int64, unique bool) {
	if tablecodec.IsRecordKey(key) {
		return 0, f.source.table.HasClusteredIndex()
	}
	id, err := tablecodec.DecodeIndexID(key)
	if err != nil {
		return 0, false
	}
	for _, idx := range f.source.table.Indices {
		if idx.ID == id {
			return id, idx.Unique // with a NULL, the handle makes the key unique
		}
	}
	return 0, false
}

func (f *Feed) exists(index int64, key, value []byte) error {
	if index == 0 {
		return txn.ExtractKeyExistsErrFromHandle(key, value, f.source.table)
	}
	return txn.ExtractKeyExistsErrFromIndex(key, value, f.source.table, index)
}

// Add adds a row with the values of all columns, which must be cast. One that violates a CHECK is not loaded. It waits until the load takes rows. Errors are TiDB's; behind one the feed may go on.
func (f *Feed) Add(ctx context.Context, row []types.Datum) (err error) {
	defer errs.Contain(&err)
	select {
	case <-f.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	pairs, err := f.enc.encodeWhole(row)
	if column := (*columnError)(nil); errors.As(err, &column) {
		return column.err
	}
	if err != nil {
		return err
	}
	violated := table.CheckRowConstraintWithDatum(f.enc.ctx.GetEvalCtx(), f.constraints, row)
	if violated != nil && !table.ErrCheckConstraintViolated.Equal(violated) {
		return violated
	}
	if f.spool != nil {
		kept := conflict.Row{Rejected: violated != nil, Pairs: make([]conflict.Pair, len(pairs))}
		for i, p := range pairs {
			kept.Pairs[i] = conflict.Pair{Key: p.Key, Value: p.Val}
		}
		return f.spool.Add(kept)
	}
	f.result.Copied++
	if violated != nil {
		return nil
	}
	f.result.Affected++
	if f.filling == nil {
		f.filling = new(feedBatch)
	}
	f.filling.add(pairs)
	if f.filling.full() {
		return f.pass(ctx)
	}
	return nil
}

// pass hands the rows that were added to readers.
func (f *Feed) pass(ctx context.Context) error {
	f.ids.settle(&f.enc.auto.blocks, false)
	if f.filling == nil {
		return nil
	}
	select {
	case f.batches <- f.filling:
		f.filling = nil
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// End says that there are no more rows, and returns what was decided about them. Without it the load does not end.
func (f *Feed) End(ctx context.Context) (result conflict.Result, err error) {
	defer errs.Contain(&err)
	select {
	case <-f.ready:
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
	if err := f.pass(ctx); err != nil {
		return result, err
	}
	if f.spool != nil {
		if f.result, err = f.spool.Decide(ctx); err != nil {
			return result, err
		}
	}
	close(f.ended)
	return f.result, nil
}

// next returns the pairs of the next row that is loaded; io.EOF behind the last.
func (f *Feed) next(ctx context.Context) ([]common.KvPair, error) {
	if f.spool != nil {
		select {
		case <-f.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		kept, err := f.spool.Next()
		if err != nil {
			return nil, err
		}
		f.pairs = f.pairs[:0]
		for _, p := range kept {
			f.pairs = append(f.pairs, common.KvPair{Key: p.Key, Val: p.Value})
		}
		return f.pairs, nil
	}
	for f.reading == nil || len(f.reading.ends) == 0 {
		select {
		case f.reading = <-f.batches:
			continue
		default:
		}
		select {
		case f.reading = <-f.batches:
		case <-f.ended:
			select {
			case f.reading = <-f.batches: // handed over before the end
			default:
				return nil, io.EOF
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return f.reading.take(), nil
}

// Close releases what the feed holds. No other method may be running.
func (f *Feed) Close() error {
	if f.enc != nil {
		f.enc.close()
		f.enc = nil
	}
	if f.spool == nil {
		return nil
	}
	return f.spool.Close()
}

// feedBatch are rows on their way to a reader.
type feedBatch struct {
	memory pairMemory
	ends   []int // how many pairs there are behind each row
	taken  int   // pairs
	bytes  int
}

const (
	feedBatchRows  = 512
	feedBatchBytes = 512 << 10
)

func (b *feedBatch) add(pairs []common.KvPair) {
	for _, p := range pairs {
		b.memory.pairs = append(b.memory.pairs, common.KvPair{Key: b.memory.keep(p.Key), Val: b.memory.keep(p.Val)})
		b.bytes += len(p.Key) + len(p.Val)
	}
	b.ends = append(b.ends, len(b.memory.pairs))
}

func (b *feedBatch) full() bool { return len(b.ends) >= feedBatchRows || b.bytes >= feedBatchBytes }

func (b *feedBatch) take() []common.KvPair {
	pairs := b.memory.pairs[b.taken:b.ends[0]]
	b.taken, b.ends = b.ends[0], b.ends[1:]
	return pairs
}
