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
	// maxSubranges bounds the concurrent requests of one scan. A worker encodes a page in a quarter of
	// the time in which TiKV makes one; and a store that is busy or far away answers late.
	maxSubranges = 4
	// maxAheadBytes bounds the size of all requested pages together if all of their rows were as long as they
	// may be, for requests that know that length. A scan has at least minSubranges.
	maxAheadBytes = 256 << 20
	minSubranges  = 2
	// subrangeFill is the part of a page that a subrange is cut for. Rows do not lie evenly, and one more
	// than a page costs another request.
	subrangeFill = 0.9
	// maxRowBytes bounds the size of a row: TiDB writes no longer ones by default.
	maxRowBytes = 6 << 20
)

// scanState is what the requests of one scan have found out, for the next ones. It may be used
// concurrently.
type scanState struct {
	layout  *rowLayout
	request dagRequest
	// rowBytes bounds the size of a row and pageBytes is the target size of a page. firstRows is the number of rows
	// of the first page, mostRows the limit of any page.
	rowBytes, pageBytes, firstRows, mostRows int

	mu     sync.Mutex
	rows   int     // of the next page
	spread float64 // the distance between rows, as keyNumber counts; 0 if it is not known
	empty  bool    // the last range had no rows
}

// newScanState returns the state of a scan whose batches have batchRows rows.
func newScanState(l *rowLayout, dag []byte, batchRows, pageBytes int) *scanState {
	s := &scanState{layout: l, request: dagRequest{data: dag, ts: l.req.TS, remember: l.req.Remember}, pageBytes: pageBytes}
	for _, ft := range l.fields {
		s.rowBytes += mostBytes(ft)
	}
	s.rowBytes = min(s.rowBytes, maxRowBytes)
	s.firstRows, s.mostRows = firstPageRows, min(maxPageRows, maxAheadBytes/maxSubranges/s.rowBytes)
	if l.req.LongRows() {
		s.firstRows = minPageRows
		if s.mostRows = maxLongPageBytes / s.rowBytes; s.mostRows < maxLongPageRows {
			s.mostRows, s.pageBytes = maxLongPageRows, pageBytes/4 // a page may be many times larger
		}
	}
	s.firstRows = min(batchRows, s.firstRows)
	s.rows = s.firstRows
	return s
}

// mostBytes bounds the size of a column's value.
func mostBytes(ft *types.FieldType) int {
	const fixed = 64 // a value of a type without a length, and the bookkeeping of a column
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

// pageRows returns the number of rows to request for the next page.
func (s *scanState) pageRows() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.layout.req.Sample {
		return min(s.rows, s.firstRows)
	}
	return s.rows
}

// size sets the number of rows of the next page, after a page of up to so many.
func (s *scanState) size(rows int, rowBytes float64) {
	most := s.mostRows
	if s.layout.req.LongRows() {
		most = min(most, longPageGrowth*rows)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = min(max(int(float64(s.pageBytes)/rowBytes), minPageRows), most)
}

// saw notes the number of rows in a range.
func (s *scanState) saw(r kv.KeyRange, rows int) {
	extent := s.extent(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.empty = rows == 0; !s.empty {
		s.spread = max(0, extent) / float64(rows) // 0 if the keys differ only further behind
	}
}

// maxRequests bounds the concurrent requests: by memory, if rows may be long.
func (s *scanState) maxRequests() int {
	return max(minSubranges, min(maxSubranges, maxAheadBytes/(s.pageRows()*s.rowBytes)))
}

// cutting is the part of a range that one request reads.
type cutting int

const (
	everything cutting = iota // the distance between rows is not known
	region                    // the part in one region
	onePage                   // the beginning
)

// cut returns the beginning of r, which lies in one region, with somewhat fewer rows than a page.
func (s *scanState) cut(r kv.KeyRange) (sub kv.KeyRange, how cutting) {
	s.mu.Lock()
	extent, empty := s.spread*float64(s.rows)*subrangeFill, s.empty
	s.mu.Unlock()
	switch {
	case empty: // the next row may be anywhere
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

// exceeds says that r has more rows than a page. A subrange reads at most a page beyond the rows it was cut for.
func (s *scanState) exceeds(r kv.KeyRange) bool {
	extent := s.extent(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spread > 0 && extent > s.spread*float64(s.rows)
}

// extent returns the distance between the ends of r, as keyNumber counts.
func (s *scanState) extent(r kv.KeyRange) float64 {
	n, _ := new(big.Float).SetInt(new(big.Int).Sub(s.keyNumber(r.End), s.keyNumber(r.Start))).Float64()
	return n
}

// keyNumber returns the place of a record key in its table as a number.
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

// window is the number of bytes of a handle that keyNumber uses.
func (s *scanState) window() int {
	if s.layout.req.CommonHandle {
		return 32
	}
	return 8
}

// scanHints keep what scans have measured of tables, for the next scan of the same columns. The zero
// value is ready.
type scanHints struct {
	mu    sync.Mutex
	found map[hintKey]scanHint
}

// hintKey identifies a request and its snapshot: at another timestamp rows may be longer.
type hintKey struct {
	request string
	ts      uint64
}

func (s *scanState) hintKey() hintKey { return hintKey{string(s.request.data), s.request.ts} }

type scanHint struct {
	rows   int
	spread float64
}

// maxHints bounds the number of remembered requests.
const maxHints = 256

// remember keeps what a scan has measured, if it has measured the distance between rows.
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

// recall gives a scan what others have measured. It returns false if that is missing, or if the first row may be
// anywhere: the scan then begins with a page of a few rows. Rows may be longer here, so the first pages are bounded
// by maxLongPageBytes for rows of any length.
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

// readAhead reads a range by several concurrent requests, each of one of the subranges that the range is cut into, and
// returns the pages in order. Each subrange holds at most two pages that the caller has not taken, and one if it is as
// long as it was cut for. It is not safe for concurrent use.
type readAhead struct {
	store     *Store
	state     *scanState
	rest      kv.KeyRange // behind all subranges
	subranges []*subrange // in order
	running   sync.WaitGroup
}

// subrange is a part of the range, and the goroutine that reads it.
type subrange struct {
	keys  kv.KeyRange
	how   cutting
	then  []byte // no other subrange reads [keys.End, then)
	pages chan *page
	err   error // set before pages is closed

	// read is the key before which all rows are read, nil before the first page. The state's mu guards it.
	read []byte
}

// next returns the next page, nil at the end.
func (a *readAhead) next(ctx context.Context) (*page, error) {
	for {
		if err := a.fill(ctx); err != nil {
			return nil, err
		}
		if len(a.subranges) == 0 {
			return nil, nil
		}
		first := a.subranges[0]
		if p, ok := <-first.pages; ok {
			return p, nil
		}
		if first.err != nil {
			return nil, first.err
		}
		a.subranges = a.subranges[1:]
		if err := a.readOn(ctx, kv.KeyRange{Start: a.end(first), End: first.then}); err != nil {
			return nil, err
		}
	}
}

// fill starts subranges up to the limit.
func (a *readAhead) fill(ctx context.Context) error {
	for len(a.subranges) < a.state.maxRequests() && !a.rest.Empty() {
		s, err := a.begin(ctx, a.rest)
		if err != nil {
			return err
		}
		a.subranges, a.rest.Start = append(a.subranges, s), s.keys.End
	}
	return nil
}

// readOn starts subranges of what the first one has left, before all others.
func (a *readAhead) readOn(ctx context.Context, left kv.KeyRange) error {
	var first []*subrange
	for !left.Empty() && (len(first) == 0 || len(first)+len(a.subranges) < a.state.maxRequests()) {
		s, err := a.begin(ctx, left)
		if err != nil {
			return err
		}
		first, left.Start = append(first, s), s.keys.End
	}
	if len(first) > 0 {
		first[len(first)-1].then = left.End
		a.subranges = append(first, a.subranges...)
	}
	return nil
}

// begin starts a subrange at the beginning of r: about a page of one region, or everything if the distance between rows
// is not known.
func (a *readAhead) begin(ctx context.Context, r kv.KeyRange) (*subrange, error) {
	_, here, err := a.store.inFirstRegion(backoffer(ctx), r)
	if err != nil {
		return nil, failed(ctx, "region", err)
	}
	s := &subrange{pages: make(chan *page, 1)}
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

// end returns the key before which a subrange reads, as far as that is known.
func (a *readAhead) end(s *subrange) []byte {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	if s.read != nil {
		return s.read
	}
	return s.keys.End
}

// readTo returns the key before which all rows are read or requested.
func (a *readAhead) readTo() (key []byte) {
	for _, s := range a.subranges {
		if key = a.end(s); bytes.Compare(key, s.then) < 0 {
			break
		}
	}
	return key
}

// readAll reads the subrange and measures the distance between rows. It ends early if the subrange has many more rows
// than it was cut for.
func (s *subrange) readAll(ctx context.Context, pages *pages) (err error) {
	defer errs.Contain(&err)
	state := pages.state
	for first := true; ; {
		p, err := pages.next(ctx)
		if err != nil {
			return err
		}
		if p == nil {
			if first && s.how == onePage {
				state.saw(s.keys, 0)
			}
			s.setRead(state, s.keys.End)
			return nil
		}
		left := kv.KeyRange{Start: s.keys.End, End: s.keys.End}
		if p.rows > 0 {
			switch {
			case p.full:
				left.Start = p.part.End
				state.saw(kv.KeyRange{Start: p.first, End: p.next}, p.rows)
			case first && s.how == onePage:
				state.saw(s.keys, p.rows)
			}
			first = false
			s.setRead(state, left.Start)
		}
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

func (s *subrange) setRead(state *scanState, key []byte) {
	state.mu.Lock()
	defer state.mu.Unlock()
	s.read = key
}
