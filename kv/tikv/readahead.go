package tikv

import (
	"bytes"
	"context"
	"math/big"
	"strings"
	"sync"

	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/internal/errs"
	"fastddl/kv"
)

const (
	// maxStrips is how many requests of one scan are under way at a time. A worker encodes a page in
	// a quarter of the time in which TiKV makes one; and a store that is busy or far away answers late.
	maxStrips = 4
	// maxAheadBytes bounds what the pages of a scan could hold together if all of their rows were as
	// long as they may be. There are minStrips requests at the least.
	maxAheadBytes = 256 << 20
	minStrips     = 2
	// stripFill is how much of a page a strip is to be. Rows do not lie evenly: one more than a page
	// costs another request.
	stripFill = 0.9
	// maxRowBytes is what a row has at the most: TiDB writes no longer ones by default.
	maxRowBytes = 6 << 20
)

// scanState is what the requests of one scan have found out, for the next ones. It may be used
// concurrently.
type scanState struct {
	layout *rowLayout
	dag    []byte // the request
	// rowBytes is what a row may have at the most, pageBytes what a page is to have, and mostRows how many rows it
	// may have.
	rowBytes, pageBytes, mostRows int

	mu      sync.Mutex
	rows    int     // of the next page
	spread  float64 // how far rows lie apart, as keyNumber counts; 0 if that is not known
	empty   bool    // there were none lately
	reached []byte  // before which all rows have been asked for
}

// newScanState is that of a scan whose batches have so many rows.
func newScanState(l *rowLayout, dag []byte, batchRows, pageBytes int) *scanState {
	first := firstPageRows
	if l.req.LongRows() {
		first = minPageRows
	}
	s := &scanState{layout: l, dag: dag, pageBytes: pageBytes, mostRows: maxPageRows, rows: min(batchRows, first), reached: l.req.Range.Start}
	for _, ft := range l.fields {
		s.rowBytes += mostBytes(ft)
	}
	s.rowBytes = min(s.rowBytes, maxRowBytes)
	if l.req.LongRows() {
		if s.mostRows = maxLongPageBytes / s.rowBytes; s.mostRows < maxLongPageRows {
			s.mostRows, s.pageBytes = maxLongPageRows, pageBytes/4 // a page may have many times that
		}
	}
	return s
}

// mostBytes is what a value of a column may have at the most.
func mostBytes(ft *types.FieldType) int {
	const fixed = 64 // what has no length, with the bookkeeping of a column
	switch tp := ft.GetType(); {
	case tp == mysql.TypeJSON, tp == mysql.TypeTiDBVectorFloat32, ft.GetFlen() < 0 && (types.IsString(tp) || types.IsTypeBlob(tp)):
		return maxRowBytes
	case tp == mysql.TypeEnum, tp == mysql.TypeSet:
		return len(strings.Join(ft.GetElems(), ",")) + fixed
	case types.IsString(tp), types.IsTypeBlob(tp):
		each := 1
		if ft.GetCharset() != charset.CharsetBin {
			each = charset.CharacterSetInfos[charset.CharsetUTF8MB4].Maxlen
		}
		return min(ft.GetFlen(), maxRowBytes)*each + fixed
	}
	return fixed
}

// pageRows is how many rows the next page is to have.
func (s *scanState) pageRows() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows
}

// size sets how many rows the next page has, after one that was to have so many.
func (s *scanState) size(rows int, rowBytes float64) {
	most := s.mostRows
	if s.layout.req.LongRows() {
		most = min(most, longPageGrowth*rows)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = min(max(int(float64(s.pageBytes)/rowBytes), minPageRows), most)
}

// reach notes that all rows before key have been asked for.
func (s *scanState) reach(key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Compare(key, s.reached) > 0 {
		s.reached = key
	}
}

// readTo is the key before which all rows have been asked for.
func (s *scanState) readTo() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached
}

// met notes how rows lie: so many from the first one's key to behind the last one's.
func (s *scanState) met(r kv.KeyRange, rows int) {
	var extent float64
	if rows > 1 {
		extent, _ = new(big.Float).SetInt(new(big.Int).Sub(s.keyNumber(r.End), s.keyNumber(r.Start))).Float64()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty = rows == 0
	if rows > 1 {
		s.spread = extent / float64(rows) // 0 if the keys differ only further behind
	}
}

// strips is how many requests there may be at a time.
func (s *scanState) strips() int {
	return max(minStrips, min(maxStrips, maxAheadBytes/(s.pageRows()*s.rowBytes)))
}

// cut returns the part of r, from its start on, that has somewhat less rows than a page, and r if that
// is all or nothing tells where the next row is. It reports false if it is not known how far rows lie apart.
func (s *scanState) cut(r kv.KeyRange) (strip kv.KeyRange, ok bool) {
	s.mu.Lock()
	extent, empty := s.spread*float64(s.rows)*stripFill, s.empty
	s.mu.Unlock()
	if extent < 1 || empty {
		return r, empty
	}
	at, _ := big.NewFloat(extent).Int(nil)
	at.Add(at, s.keyNumber(r.Start))
	if at.BitLen() <= 8*s.window() {
		end := append(bytes.Clone(s.layout.prefix), at.FillBytes(make([]byte, s.window()))...)
		if bytes.Compare(end, r.End) < 0 {
			return kv.KeyRange{Start: r.Start, End: end}, bytes.Compare(end, r.Start) > 0
		}
	}
	return r, true
}

// keyNumber is where in its table a record key lies, as a number.
func (s *scanState) keyNumber(key []byte) *big.Int {
	handle := make([]byte, s.window())
	switch prefix := s.layout.prefix; {
	case bytes.HasPrefix(key, prefix):
		copy(handle, key[len(prefix):])
	case bytes.Compare(key, prefix) > 0: // the end of the table
		for i := range handle {
			handle[i] = 0xff
		}
	}
	return new(big.Int).SetBytes(handle)
}

// window is how many bytes of a handle count.
func (s *scanState) window() int {
	if s.layout.req.CommonHandle {
		return 32
	}
	return 8
}

// scanHints are what scans have found out of tables, for the next scan of the same columns. The zero
// value is ready.
type scanHints struct {
	mu    sync.Mutex
	found map[hintKey]scanHint
}

// hintKey names what is read: of another time rows may be longer.
type hintKey struct {
	request string
	ts      uint64
}

func (s *scanState) hintKey() hintKey { return hintKey{string(s.dag), s.layout.req.TS} }

type scanHint struct {
	rows   int
	spread float64
}

// maxHints bounds the requests that are remembered.
const maxHints = 256

// take remembers what a scan has found out.
func (h *scanHints) take(s *scanState) {
	s.mu.Lock()
	hint := scanHint{s.rows, s.spread}
	s.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.found == nil || len(h.found) >= maxHints {
		h.found = make(map[hintKey]scanHint)
	}
	h.found[s.hintKey()] = hint
}

// give tells a scan what others have found out. It reports false if there is nothing, or
// nothing that tells where the first row is, or rows may be far longer than those: the scan begins with a page of a few
// rows then.
func (h *scanHints) give(s *scanState) bool {
	req := &s.layout.req
	if req.Sample || len(req.Range.Start) <= len(s.layout.prefix) {
		return false
	}
	h.mu.Lock()
	hint, ok := h.found[s.hintKey()]
	h.mu.Unlock()
	if !ok || hint.spread == 0 || req.LongRows() && hint.rows*s.rowBytes > maxLongPageBytes {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.spread = hint.rows, hint.spread
	return true
}

// readAhead reads a range by several requests at a time, of strips that follow one another, and
// hands the pages out in order. Each strip has read two pages at the most that nobody has taken, and
// one if it is as long as it should be.
type readAhead struct {
	store   *Store
	state   *scanState
	rest    kv.KeyRange // behind all strips
	strips  []*strip    // in order
	running sync.WaitGroup
}

// strip is a part of the range, and the goroutine that reads it.
type strip struct {
	pages chan *page
	err   error // set before pages is closed
}

// next returns the next page, nil if there is none.
func (a *readAhead) next(ctx context.Context) (*page, error) {
	for {
		if err := a.fill(ctx); err != nil {
			return nil, err
		}
		if len(a.strips) == 0 {
			return nil, nil
		}
		first := a.strips[0]
		if p, ok := <-first.pages; ok {
			return p, nil
		}
		if first.err != nil {
			return nil, first.err
		}
		a.strips = a.strips[1:]
	}
}

// fill begins as many strips as there may be.
func (a *readAhead) fill(ctx context.Context) error {
	for len(a.strips) < a.state.strips() && !a.rest.Empty() {
		r, err := a.nextStrip(ctx)
		if err != nil {
			return err
		}
		pages := a.store.newPages(a.state, r)
		s := &strip{pages: make(chan *page, 1)}
		a.strips, a.rest.Start = append(a.strips, s), r.End
		a.running.Go(func() {
			defer close(s.pages)
			s.err = s.read(ctx, pages)
		})
	}
	return nil
}

// nextStrip is about a page of one region, or everything if nothing tells what a page is.
func (a *readAhead) nextStrip(ctx context.Context) (kv.KeyRange, error) {
	loc, err := a.store.cluster.GetRegionCache().LocateKey(backoffer(ctx), a.rest.Start)
	if err != nil {
		return a.rest, failed(ctx, "region", err)
	}
	here := a.rest
	if len(loc.EndKey) > 0 && bytes.Compare(loc.EndKey, here.End) < 0 {
		here.End = loc.EndKey
	}
	r, ok := a.state.cut(here)
	if !ok {
		return a.rest, nil
	}
	a.state.reach(r.End)
	return r, nil
}

// read reads the strip, and tells how its rows lie.
func (s *strip) read(ctx context.Context, pages *pages) (err error) {
	defer errs.Contain(&err)
	defer pages.close()
	for met := false; ; met = true {
		p, err := pages.next(ctx)
		if err != nil {
			return err
		}
		if p == nil {
			if !met {
				pages.state.met(kv.KeyRange{}, 0)
			}
			return nil
		}
		pages.state.met(kv.KeyRange{Start: p.first, End: p.next}, p.rows)
		select {
		case s.pages <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
