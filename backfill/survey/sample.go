package survey

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

const (
	// readers is how many places are read at a time: each costs the time that the store takes to answer.
	readers = 32
	// wholeRows is up to how many rows a table is read whole.
	wholeRows = 4096
)

var errEnough = errors.New("survey: enough rows")

// sample is the rows that were read.
type sample struct {
	rows, bytes int64
	// complete says that these are all rows of the ranges.
	complete bool
	// places have the entries of each place, in key order.
	places   []place
	rowError error
	badRows  int64
}

// place is what was read at one place: the entries of the rows by index.
type place struct {
	rows, bytes int64
	all         bool // the place was read to its end
	// part is how much of the place was read, by its keys.
	part     float64
	entries  [][]pair
	rowError error
	badRows  int64
}

// pair is an entry: the key with its prefix, and the value behind it.
type pair struct {
	kv   []byte
	klen int
}

func (p *pair) key() []byte   { return p.kv[:p.klen] }
func (p *pair) value() []byte { return p.kv[p.klen:] }

// sample reads rows at all places, as far as there is time. A table that may be small is read from its first key on before,
// to its end if it is.
func (v *surveyor) sample(ctx context.Context) (*sample, error) {
	timed, cancel := context.WithTimeout(ctx, v.opts.SampleFor)
	defer cancel()
	if whole, err := v.readWhole(timed); err != nil || whole != nil {
		if err == nil || ctx.Err() != nil || timed.Err() == nil {
			return whole, err
		}
	}
	places := v.places()
	found := make([]*place, len(places))
	at := readers
	if req := v.projection.Request(places[0], v.task.TS, v.opts.Rows); req.LongRows() {
		at = execution.LongPlaces
	}
	// In random order: if the time is over they are from everywhere all the same.
	order := rand.New(rand.NewPCG(v.opts.Seed, 0)).Perm(len(places))
	var mu sync.Mutex
	read := 0
	err := parallel.Do(timed, len(places), func() int { return at }, func(ctx context.Context, i int) error {
		p, err := v.read(ctx, places[order[i]], v.opts.Rows, v.opts.Bytes/int64(len(places)))
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			if read > 0 && timed.Err() != nil {
				return nil
			}
			return err
		}
		found[order[i]] = p
		read++
		return nil
	})
	if err != nil && (ctx.Err() != nil || timed.Err() == nil || read == 0) {
		if timed.Err() != nil && ctx.Err() == nil {
			return nil, ErrNothingRead
		}
		return nil, err
	}
	return collect(found, len(places)), nil
}

// readWhole reads a table of few ranges and rows whole; it returns nil if it is not one.
func (v *surveyor) readWhole(ctx context.Context) (*sample, error) {
	if len(v.ranges) > v.opts.Places || v.storedBytes() > uint64(v.opts.Bytes) {
		return nil, nil
	}
	var found []*place
	rows, left := wholeRows, v.opts.Bytes
	for _, r := range keyrange.Merge(v.ranges) {
		p, err := v.read(ctx, r.KeyRange, rows, left)
		if err != nil {
			return nil, err
		}
		if !p.all {
			return nil, nil
		}
		found = append(found, p)
		rows, left = rows-int(p.rows), left-p.bytes
	}
	return collect(found, len(found)), nil
}

// collect adds up what was read at places, of which there are n.
func collect(found []*place, n int) *sample {
	s := &sample{}
	for _, p := range found {
		if p == nil {
			continue
		}
		s.rows += p.rows
		s.bytes += p.bytes
		s.badRows += p.badRows
		if s.rowError == nil {
			s.rowError = p.rowError
		}
		s.places = append(s.places, *p)
	}
	s.complete = len(s.places) == n && !slices.ContainsFunc(s.places, func(p place) bool { return !p.all })
	return s
}

// read reads the first rows of r and encodes their entries.
func (v *surveyor) read(ctx context.Context, r kv.KeyRange, rows int, most int64) (*place, error) {
	enc, err := encode.NewEncoders(v.projection)
	if err != nil {
		return nil, err
	}
	p := &place{entries: make([][]pair, len(v.task.Indexes))}
	physicalID := keyrange.Weighted{KeyRange: r}.PhysicalID()
	prefixes := make([][]byte, len(v.task.Indexes))
	for k, idx := range v.task.Indexes {
		prefixes[k] = encode.IndexPrefix(encode.IndexIDs(v.task.Table, idx, []int64{physicalID})[0], idx.ID)
	}
	req := v.projection.Request(r, v.task.TS, min(rows, v.opts.Rows))
	req.Sample = true
	err = v.opts.Store.ScanColumns(ctx, req, func(batch *kv.RowBatch) error {
		p.rows += int64(batch.NumRows())
		p.bytes += int64(batch.Bytes)
		p.part = keyrange.Position(r, batch.LastKey)
		if err := p.encode(enc, batch, physicalID, prefixes); err != nil {
			return err
		}
		if p.rows >= int64(rows) || p.bytes >= most {
			return errEnough
		}
		return nil
	})
	p.all = err == nil
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return p, nil
}

// encode adds the entries of a batch. Rows that have none are noted.
func (p *place) encode(enc *encode.Encoders, batch *kv.RowBatch, physicalID int64, prefixes [][]byte) error {
	noted := func(err error) error {
		var bad *encode.RowError
		var dup *ingest.DuplicateError
		switch {
		case errors.As(err, &bad):
			p.badRows += int64(len(bad.Rows))
		case errors.As(err, &dup):
			p.badRows++
		default:
			return err
		}
		if p.rowError == nil {
			p.rowError = err
		}
		return nil
	}
	if err := enc.Bind(batch, physicalID); err != nil {
		return noted(err)
	}
	for k, e := range enc.Indexes {
		err := e.Encode(func(_ int, kv []byte, klen int) error {
			entry := append(bytes.Clone(prefixes[k]), kv...)
			p.entries[k] = append(p.entries[k], pair{entry, len(prefixes[k]) + klen})
			return nil
		})
		if err != nil {
			if err := noted(err); err != nil {
				return err
			}
		}
	}
	return nil
}
