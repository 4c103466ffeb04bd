package tikv

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
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
		if err != nil || p == nil {
			return err
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
	defer first.close()
	another := first.more
	if state.layout.req.Sample {
		another = first.next
	}
	p, err := first.next(ctx)
	for p != nil && err == nil {
		if p.rows > 1 {
			state.saw(kv.KeyRange{Start: p.first, End: p.next}, p.rows)
		}
		out.readTo = func() []byte { return p.next }
		s.hints.remember(state)
		if err = out.add(ctx, p); err == nil {
			p, err = another(ctx)
		}
	}
	return first.left(), err
}

// page is a part of the rows.
type page struct {
	chunks   []*chunk.Chunk
	rows     int
	rowBytes float64 // of a row, on the way
	first    []byte  // key of its first row
	next     []byte  // what follows the key of its last row
	full     bool    // it has as many rows as were asked for, so there may be more
}

// pages reads a range page by page, region by region.
type pages struct {
	store *Store
	state *scanState
	keys  *keyEncoder
	dec   *pageDecoder

	rest     kv.KeyRange // behind the region that is being read
	piece    kv.KeyRange // what is left of that region; without a start if none is being read
	resp     tidbkv.Response
	pageRows int // of the request that is under way
}

// newPages returns the pages of a range.
func (s *Store) newPages(state *scanState, r kv.KeyRange) *pages {
	return &pages{store: s, state: state, keys: newKeyEncoder(state.layout), dec: newPageDecoder(state.layout.fields), rest: r}
}

// left is what no page has had yet.
func (p *pages) left() kv.KeyRange {
	if p.piece.Start != nil {
		return kv.KeyRange{Start: p.piece.Start, End: p.rest.End}
	}
	return p.rest
}

// next returns the next page, nil if there is none.
func (p *pages) next(ctx context.Context) (*page, error) {
	for {
		if p.resp == nil {
			if p.rest.Empty() {
				return nil, nil
			}
			if err := p.open(ctx); err != nil {
				return nil, p.failed(ctx, err)
			}
		}
		if out, err := p.more(ctx); out != nil || err != nil {
			return out, err
		}
	}
}

// more returns the next page of the request that is under way, nil if that has ended or there is
// none.
func (p *pages) more(ctx context.Context) (*page, error) {
	for p.resp != nil {
		part, err := p.resp.Next(ctx)
		if err != nil {
			return nil, p.failed(ctx, err)
		}
		if part == nil {
			p.close()
			p.piece = kv.KeyRange{}
			break
		}
		out, err := p.decode(part.GetData())
		if err != nil {
			return nil, p.failed(ctx, err)
		}
		if out.rows > 0 {
			return out, nil
		}
	}
	return nil, nil
}

func (p *pages) failed(ctx context.Context, err error) error {
	return failed(ctx, fmt.Sprintf("scan %s", p.keys.req.Range), err)
}

// inFirstRegion returns the part of r that lies in the region of its start, as the cache has it.
func (s *Store) inFirstRegion(ctx context.Context, r kv.KeyRange) (kv.KeyRange, error) {
	loc, err := s.cluster.GetRegionCache().LocateKey(backoffer(ctx), r.Start)
	if err == nil && len(loc.EndKey) > 0 && bytes.Compare(loc.EndKey, r.End) < 0 {
		r.End = loc.EndKey
	}
	return r, err
}

// open asks for what is left of one region, or of what the cache takes for one.
func (p *pages) open(ctx context.Context) (err error) {
	if p.piece, err = p.store.inFirstRegion(ctx, p.rest); err != nil {
		return err
	}
	p.rest.Start = p.piece.End
	p.pageRows = p.state.pageRows()
	req := copRequest(ctx, tidbkv.ReqTypeDAG, p.state.dag, p.keys.req.TS, p.piece)
	req.Paging.Enable = true
	req.Paging.MinPagingSize, req.Paging.MaxPagingSize = uint64(p.pageRows), uint64(p.pageRows)
	p.resp = p.store.send(ctx, req)
	return nil
}

// decode makes a page of an answer. The next one has as many rows as its rows say.
func (p *pages) decode(data []byte) (*page, error) {
	resp, err := selected(data)
	if err != nil {
		return nil, err
	}
	out := &page{}
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
	out.rowBytes = float64(len(data)) / float64(out.rows)
	if out.first, err = p.keys.appendKey(nil, out.chunks[0], 0); err != nil {
		return nil, err
	}
	left, err := p.keys.after(p.piece, out.chunks[len(out.chunks)-1])
	if err != nil {
		return nil, err
	}
	out.next = left.Start
	p.piece = left
	if 2*out.rows >= p.pageRows || len(data) > p.state.pageBytes { // few rows say little of others
		p.state.size(p.pageRows, out.rowBytes)
	}
	if out.full = out.rows >= p.pageRows; !out.full {
		return out, nil // the end of the region, or of the subrange
	}
	// TiDB's client makes pages longer and longer. So each is a request of its own.
	p.close()
	p.rest.Start, p.piece = left.Start, kv.KeyRange{}
	return out, nil
}

// close ends the request that is under way. Its error has no meaning any more.
func (p *pages) close() {
	if p.resp != nil {
		_ = p.resp.Close()
		p.resp = nil
	}
}
