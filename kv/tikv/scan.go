package tikv

import (
	"context"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/kv"
)

const (
	defaultBatchRows = 1024
	// firstPageRows is what is asked for before it is known how long rows are, unless they
	// may be long.
	firstPageRows = 128
	// minPageRows and maxPageRows bound the rows of a page.
	minPageRows, maxPageRows = kv.MinBatchRows, 50_000
	// Where rows may be long, the next row may be long after any number of short ones. So a page of them has at
	// most longPageGrowth times as many rows as the page before, and at most maxLongPageRows unless so many rows
	// of any length are less than maxLongPageBytes.
	// TiKV ends a page with a batch, of 32 rows, then of 64 and of 128.
	maxLongPageRows, maxLongPageBytes, longPageGrowth = 32 + 64 + 128, 32 << 20, 4
)

// ScanColumns implements kv.Store.
func (s *Store) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) (err error) {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.exit()
	if req.Range.Empty() {
		return nil
	}
	if err := s.readable(ctx, req.TS); err != nil {
		return err
	}
	layout, err := newRowLayout(req)
	if err != nil {
		return err
	}
	rows := req.BatchRows
	if rows <= 0 {
		rows = defaultBatchRows
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dag, err := layout.dag()
	if err != nil {
		return err
	}
	state := newScanState(layout, dag, rows, s.opts.PageBytes)
	out := newBatcher(layout, rows, fn)
	rest := req.Range
	if !s.hints.recall(state) {
		if rest, err = s.scanFirst(ctx, state, out); err != nil {
			return err
		}
	}
	ahead := &readAhead{store: s, state: state, rest: rest}
	out.readTo = ahead.readTo
	defer func() { // also if fn panics
		cancel()
		ahead.running.Wait()
		s.hints.remember(state)
	}()
	for {
		p, err := ahead.next(ctx)
		if err != nil {
			return err
		}
		if p == nil {
			return out.complete()
		}
		if err := out.add(ctx, p); err != nil {
			return err
		}
	}
}

// scanFirst hands out the rows of the first page, before any other is asked for, or those of all pages, one by one,
// if it is for a sample. It returns what is left.
func (s *Store) scanFirst(ctx context.Context, state *scanState, out *batcher) (rest kv.KeyRange, err error) {
	first := s.newPages(state, state.layout.req.Range)
	for {
		p, err := first.next(ctx)
		if err != nil || p == nil {
			return first.rest, err
		}
		if p.rows > 1 {
			state.saw(kv.KeyRange{Start: p.first, End: p.next}, p.rows)
		}
		out.readTo = func() []byte { return p.next }
		s.hints.remember(state)
		if err := out.add(ctx, p); err != nil || p.rows > 0 && !state.layout.req.Sample {
			return first.rest, err
		}
	}
}

// page is a part of the rows, which may have none.
type page struct {
	chunks   []*chunk.Chunk
	rows     int
	visited  int         // records that the store has read for them
	rowBytes float64     // of a row, on the way
	part     kv.KeyRange // that was read
	full     bool        // it ends before its region does, so there may be more
	first    []byte      // key of its first row
	next     []byte      // what follows the key of its last row
}

// pages reads a range page by page. The parts of the pages tile the range: each begins where the one before ends, and the
// last one ends where the range does.
type pages struct {
	store *Store
	state *scanState
	keys  *keyEncoder
	dec   *pageDecoder
	rest  kv.KeyRange // that no page is of
}

// newPages returns the pages of a range.
func (s *Store) newPages(state *scanState, r kv.KeyRange) *pages {
	return &pages{store: s, state: state, keys: newKeyEncoder(state.layout), dec: newPageDecoder(state.layout.fields), rest: r}
}

// next returns the next page, nil if there is none.
func (p *pages) next(ctx context.Context) (*page, error) {
	if p.rest.Empty() {
		return nil, nil
	}
	out, err := p.read(ctx)
	if err != nil {
		return nil, failed(ctx, fmt.Sprintf("scan %s", p.rest), err)
	}
	p.rest.Start = out.part.End
	return out, nil
}

// read requests the page that the rest begins with.
func (p *pages) read(ctx context.Context) (*page, error) {
	rows := p.state.pageRows()
	answer, err := p.store.readRegion(ctx, &p.state.request, p.rest, rows)
	if err != nil {
		return nil, err
	}
	out, err := p.decode(answer)
	if err != nil {
		return nil, err
	}
	if out.visited, err = p.visited(ctx, answer); err != nil {
		return nil, err
	}
	if out.rows != out.visited {
		return nil, &kv.ScanCountError{Range: out.part, Rows: int64(out.rows), Visited: int64(out.visited)}
	}
	if p.state.request.remember {
		p.store.visits.add(p.state.request.ts, answer, out.visited)
	}
	if 2*out.rows >= rows || len(answer.Data) > p.state.pageBytes { // few rows say little of others
		p.state.size(rows, out.rowBytes)
	}
	return out, nil
}

// visited is how many records the store has read for an answer. Where the answer does not say so, the store counts the
// records of the part in a request of its own: an old TiKV costs a second reading, as verification in full does.
func (p *pages) visited(ctx context.Context, answer *regionAnswer) (int, error) {
	n, ok := answer.visited()
	if !ok {
		var err error
		if n, err = p.store.count(ctx, answer.part, p.state.request.ts); err != nil {
			return 0, err
		}
	}
	return int(n), nil
}

// decode makes a page of an answer.
func (p *pages) decode(answer *regionAnswer) (*page, error) {
	resp, err := selected(answer.Data)
	if err != nil {
		return nil, err
	}
	out := &page{part: answer.part, full: answer.more}
	if out.chunks, err = p.dec.decode(resp); err != nil {
		return nil, err
	}
	out.chunks = slices.DeleteFunc(out.chunks, func(c *chunk.Chunk) bool { return c.NumRows() == 0 })
	for _, c := range out.chunks {
		out.rows += c.NumRows()
	}
	if out.rows == 0 {
		return out, nil
	}
	out.rowBytes = float64(len(answer.Data)) / float64(out.rows)
	if out.first, err = p.keys.keyIn(out.part, out.chunks[0], 0); err != nil {
		return nil, err
	}
	last := out.chunks[len(out.chunks)-1]
	key, err := p.keys.keyIn(out.part, last, last.NumRows()-1)
	out.next = kv.NextKey(key)
	return out, err
}
