package tikv

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/internal/errs"
	"fastddl/kv"
)

const (
	defaultBatchRows = 1024
	// firstPageRows is what is asked for before it is known how long rows are, unless they
	// may be long.
	firstPageRows = 128
	// minPageRows and maxPageRows bound the rows of a page.
	minPageRows, maxPageRows = kv.MinBatchRows, 50_000
	// Rows that may be long may be so from any row on, whatever those before were like. So a page
	// of such has maxLongPageRows at the most, and longPageGrowth times as many as the one before.
	// TiKV ends a page with a batch, of 32 rows, then of 64 and of 128.
	maxLongPageRows, longPageGrowth = 32 + 64 + 128, 4
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
	pages, err := s.newPages(layout, rows)
	if err != nil {
		return err
	}
	out := newBatcher(layout, rows, &pages.reached, fn)
	var ahead *readAhead
	defer func() { // also if fn panics
		cancel()
		if ahead == nil {
			pages.close()
		} else if readErr := ahead.wait(); err == nil {
			err = readErr
		}
	}()
	// The first page is read before the second one is asked for: who samples a table
	// wants no more.
	p, err := pages.next(ctx)
	if err != nil || p == nil {
		return err
	}
	if err := out.add(ctx, p); err != nil {
		return err
	}
	ahead = pages.readAhead(ctx)
	for p := range ahead.pages {
		if err := out.add(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// page is a part of the rows.
type page struct {
	chunks   []*chunk.Chunk
	rows     int
	rowBytes float64 // of a row, on the way
}

// pages reads a scan's range page by page, region by region.
type pages struct {
	store *Store
	keys  *keyEncoder
	dag   []byte
	dec   *pageDecoder

	rest     kv.KeyRange // behind the region that is being read
	piece    kv.KeyRange // what is left of that region, when it was asked for
	resp     tidbkv.Response
	pageRows int
	reached  atomic.Pointer[[]byte] // before which all rows are in pages; its bytes do not change
}

// newPages returns all pages of a scan, of which the first has about rows rows.
func (s *Store) newPages(l *rowLayout, rows int) (*pages, error) {
	dag, err := l.dag()
	if err != nil {
		return nil, err
	}
	first := firstPageRows
	if l.req.LongRows() {
		first = minPageRows
	}
	return &pages{
		store: s, keys: newKeyEncoder(l), dag: dag, dec: newPageDecoder(l.fields),
		rest: l.req.Range, pageRows: min(rows, first),
	}, nil
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
		part, err := p.resp.Next(ctx)
		if err != nil {
			return nil, p.failed(ctx, err)
		}
		if part == nil {
			p.reach(p.piece.End)
			p.close()
			continue
		}
		out, err := p.decode(part.GetData())
		if err != nil {
			return nil, p.failed(ctx, err)
		}
		if out.rows > 0 {
			return out, nil
		}
	}
}

func (p *pages) failed(ctx context.Context, err error) error {
	return failed(ctx, fmt.Sprintf("scan %s", p.keys.req.Range), err)
}

// open asks for what is left of one region, or of what the cache takes for one.
func (p *pages) open(ctx context.Context) error {
	loc, err := p.store.cluster.GetRegionCache().LocateKey(backoffer(ctx), p.rest.Start)
	if err != nil {
		return err
	}
	p.piece = p.rest
	if len(loc.EndKey) > 0 && bytes.Compare(loc.EndKey, p.piece.End) < 0 {
		p.piece.End = loc.EndKey
	}
	p.rest.Start = p.piece.End
	req := copRequest(ctx, tidbkv.ReqTypeDAG, p.dag, p.keys.req.TS, p.piece)
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
	var last *chunk.Chunk
	for _, c := range out.chunks {
		if c.NumRows() > 0 {
			last = c
			out.rows += c.NumRows()
		}
	}
	if out.rows == 0 {
		return out, nil
	}
	out.rowBytes = float64(len(data)) / float64(out.rows)
	left, err := p.keys.after(p.piece, last)
	if err != nil {
		return nil, err
	}
	p.reach(left.Start)
	if out.rows < p.pageRows {
		return out, nil // the end of the region
	}
	// TiDB's client makes pages longer and longer. So each is a request of its own.
	p.close()
	p.pageRows, p.rest.Start = p.nextRows(out), left.Start
	return out, nil
}

// reach notes that all rows before key are in pages.
func (p *pages) reach(key []byte) { p.reached.Store(&key) }

// nextRows is how many rows the page after one that was full has.
func (p *pages) nextRows(last *page) int {
	most := maxPageRows
	if p.keys.req.LongRows() {
		most = min(maxLongPageRows, longPageGrowth*p.pageRows)
	}
	return min(max(int(float64(p.store.opts.PageBytes)/last.rowBytes), minPageRows), most)
}

// close ends the request that is under way. Its error has no meaning any more.
func (p *pages) close() {
	if p.resp != nil {
		_ = p.resp.Close()
		p.resp = nil
	}
}

// readAhead is a goroutine that reads pages.
type readAhead struct {
	pages chan *page
	err   error // set before pages is closed
}

// readAhead reads the rest, two pages ahead of who takes them, until ctx ends.
func (p *pages) readAhead(ctx context.Context) *readAhead {
	a := &readAhead{pages: make(chan *page, 1)}
	go func() {
		defer close(a.pages)
		a.err = p.readInto(ctx, a.pages)
	}()
	return a
}

func (p *pages) readInto(ctx context.Context, out chan<- *page) (err error) {
	defer errs.Contain(&err)
	defer p.close()
	for {
		next, err := p.next(ctx)
		if err != nil || next == nil {
			return err
		}
		select {
		case out <- next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wait returns when the goroutine has ended, with what ended it.
func (a *readAhead) wait() error {
	for range a.pages { // what nobody has taken
	}
	return a.err
}
