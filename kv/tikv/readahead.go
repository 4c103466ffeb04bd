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
	// maxAheadBytes bounds what the pages that are asked for could have together if all of their rows were as
	// long as they may be, for requests that know what that is. There are minStrips at the least.
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
	// rowBytes is what a row may have at the most, pageBytes what a page is to have, and firstRows and mostRows how many
	// rows the first one is to have and any may have.
	rowBytes, pageBytes, firstRows, mostRows int

	mu     sync.Mutex
	rows   int     // of the next page
	spread float64 // how far rows lie apart, as keyNumber counts; 0 if that is not known
	empty  bool    // there were none lately
}

// newScanState is that of a scan whose batches have so many rows.
func newScanState(l *rowLayout, dag []byte, batchRows, pageBytes int) *scanState {
	s := &scanState{layout: l, dag: dag, pageBytes: pageBytes}
	for _, ft := range l.fields {
		s.rowBytes += mostBytes(ft)
	}
	s.rowBytes = min(s.rowBytes, maxRowBytes)
	s.firstRows, s.mostRows = firstPageRows, min(maxPageRows, maxAheadBytes/maxStrips/s.rowBytes)
	if l.req.LongRows() {
		s.firstRows = minPageRows
		if s.mostRows = maxLongPageBytes / s.rowBytes; s.mostRows < maxLongPageRows {
			s.mostRows, s.pageBytes = maxLongPageRows, pageBytes/4 // a page may have many times that
		}
	}
	s.firstRows = min(batchRows, s.firstRows)
	s.rows = s.firstRows
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
	if s.layout.req.Sample {
		return min(s.rows, s.firstRows)
	}
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

// saw notes that so many rows lie in a range.
func (s *scanState) saw(r kv.KeyRange, rows int) {
	extent := s.extent(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.empty = rows == 0; !s.empty {
		s.spread = max(0, extent) / float64(rows) // 0 if the keys differ only further behind
	}
}

// mayAsk is how many requests there may be at a time.
func (s *scanState) mayAsk() int {
	return max(minStrips, min(maxStrips, maxAheadBytes/(s.pageRows()*s.rowBytes)))
}

// cutting is what of a range is to be read by one request.
type cutting int

const (
	everything cutting = iota // nothing tells how far rows lie apart
	region                    // what of it lies in one region
	onePage                   // its beginning
)

// cut cuts r, which lies in one region, behind somewhat less rows than a page.
func (s *scanState) cut(r kv.KeyRange) (strip kv.KeyRange, how cutting) {
	s.mu.Lock()
	extent, empty := s.spread*float64(s.rows)*stripFill, s.empty
	s.mu.Unlock()
	switch {
	case empty: // nothing tells where the next row is
		return r, region
	case extent < 1:
		return r, everything
	}
	at, _ := big.NewFloat(extent).Int(nil)
	at.Add(at, s.keyNumber(r.Start))
	if at.BitLen() <= 8*s.window() {
		end := append(bytes.Clone(s.layout.prefix), at.FillBytes(make([]byte, s.window()))...)
		if bytes.Compare(end, r.End) < 0 {
			return kv.KeyRange{Start: r.Start, End: end}, onePage
		}
	}
	return r, region
}

// exceeds says that r has more rows than a page: a strip reads no more than that beyond what it was cut for.
func (s *scanState) exceeds(r kv.KeyRange) bool {
	extent := s.extent(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spread > 0 && extent > s.spread*float64(s.rows)
}

// extent is how far the ends of r lie apart, as keyNumber counts.
func (s *scanState) extent(r kv.KeyRange) float64 {
	n, _ := new(big.Float).SetInt(new(big.Int).Sub(s.keyNumber(r.End), s.keyNumber(r.Start))).Float64()
	return n
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

// remember keeps what a scan has found out, if it is something.
func (h *scanHints) remember(s *scanState) {
	s.mu.Lock()
	hint := scanHint{s.rows, s.spread}
	s.mu.Unlock()
	if hint.spread == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := s.hintKey()
	if _, known := h.found[key]; !known && len(h.found) >= maxHints || h.found == nil {
		h.found = make(map[hintKey]scanHint)
	}
	h.found[key] = hint
}

// recall tells a scan what others have found out. It reports false if there is nothing, or
// nothing that tells where the first row is: the scan begins with a page of a few rows then. Rows may be longer here, so a
// page is no larger at first than maxLongPageBytes whatever they are like.
func (h *scanHints) recall(s *scanState) bool {
	if s.layout.req.Sample || len(s.layout.req.Range.Start) <= len(s.layout.prefix) {
		return false
	}
	h.mu.Lock()
	hint, ok := h.found[s.hintKey()]
	h.mu.Unlock()
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.spread = min(hint.rows, max(s.rows, maxLongPageBytes/s.rowBytes)), hint.spread
	return true
}

// readAhead reads a range by several requests at a time, of strips that follow one another, and
// hands the pages out in order. Each strip has read two pages at the most that nobody has taken, and
// one if it is as long as it should be. It is not safe for concurrent use.
type readAhead struct {
	store   *Store
	state   *scanState
	rest    kv.KeyRange // behind all strips
	strips  []*strip    // in order
	running sync.WaitGroup
}

// strip is a part of the range, and the goroutine that reads it.
type strip struct {
	keys  kv.KeyRange
	how   cutting
	then  []byte // before which nobody else reads what follows the strip
	pages chan *page
	err   error // set before pages is closed

	// read is before what the strip has not read, once that is known to be more than a page. The state's mu guards it.
	read []byte
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
		if err := a.readOn(ctx, kv.KeyRange{Start: a.end(first), End: first.then}); err != nil {
			return nil, err
		}
	}
}

// fill begins as many strips as there may be.
func (a *readAhead) fill(ctx context.Context) error {
	for len(a.strips) < a.state.mayAsk() && !a.rest.Empty() {
		s, err := a.begin(ctx, a.rest)
		if err != nil {
			return err
		}
		a.strips, a.rest.Start = append(a.strips, s), s.keys.End
	}
	return nil
}

// readOn begins strips of what the first one has left, before all others.
func (a *readAhead) readOn(ctx context.Context, left kv.KeyRange) error {
	var first []*strip
	for !left.Empty() && (len(first) == 0 || len(first)+len(a.strips) < a.state.mayAsk()) {
		s, err := a.begin(ctx, left)
		if err != nil {
			return err
		}
		first, left.Start = append(first, s), s.keys.End
	}
	if len(first) > 0 {
		first[len(first)-1].then = left.End
		a.strips = append(first, a.strips...)
	}
	return nil
}

// begin begins a strip at the beginning of r: about a page of one region, or everything if nothing tells what a page is.
func (a *readAhead) begin(ctx context.Context, r kv.KeyRange) (*strip, error) {
	here, err := a.store.inFirstRegion(ctx, r)
	if err != nil {
		return nil, failed(ctx, "region", err)
	}
	s := &strip{pages: make(chan *page, 1)}
	if s.keys, s.how = a.state.cut(here); s.how == everything {
		s.keys = r
	}
	s.then = s.keys.End
	pages := a.store.newPages(a.state, s.keys)
	a.running.Go(func() {
		defer close(s.pages)
		s.err = s.readAll(ctx, pages)
	})
	return s, nil
}

// end is where what a strip reads ends, as far as that is known.
func (a *readAhead) end(s *strip) []byte {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	if s.read != nil {
		return s.read
	}
	return s.keys.End
}

// readTo is the key before which all rows are read or asked for.
func (a *readAhead) readTo() (key []byte) {
	for _, s := range a.strips {
		if key = a.end(s); bytes.Compare(key, s.then) < 0 {
			break
		}
	}
	return key
}

// readAll reads the strip, and tells how its rows lie. It ends early if there are many more of them than it was cut for.
func (s *strip) readAll(ctx context.Context, pages *pages) (err error) {
	defer errs.Contain(&err)
	defer pages.close()
	state := pages.state
	for number := 0; ; number++ {
		p, err := pages.next(ctx)
		if err != nil {
			return err
		}
		if p == nil {
			if number == 0 && s.how == onePage {
				state.saw(s.keys, 0)
			}
			s.setRead(state, s.keys.End)
			return nil
		}
		left := kv.KeyRange{Start: s.keys.End, End: s.keys.End}
		switch {
		case p.full:
			left.Start = p.next
			state.saw(kv.KeyRange{Start: p.first, End: p.next}, p.rows)
		case number == 0 && s.how == onePage:
			state.saw(s.keys, p.rows)
		}
		s.setRead(state, left.Start)
		select {
		case s.pages <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !left.Empty() && state.exceeds(left) {
			return nil
		}
	}
}

func (s *strip) setRead(state *scanState, key []byte) {
	state.mu.Lock()
	defer state.mu.Unlock()
	s.read = key
}
