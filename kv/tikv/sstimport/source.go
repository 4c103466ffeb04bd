package sstimport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/kv"
)

// source reads the units of one import, which do not overlap, as one sequence in key
// order. It may be used concurrently; cursors may not.
type source struct {
	units   []*unit
	readers []*sstable.Reader
	account *account
}

// sourceError says that what was written cannot be read any more.
type sourceError struct {
	path string
	err  error
}

func (e *sourceError) Error() string { return fmt.Sprintf("sstimport: reading %s: %v", e.path, e.err) }
func (e *sourceError) Unwrap() error { return e.err }

// openSource opens the files of units, which must be in key order.
func openSource(ctx context.Context, units []*unit) (_ *source, err error) {
	s := &source{units: units, account: newAccount(units)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for _, u := range units {
		f, err := vfs.Default.Open(u.path)
		if err != nil {
			return nil, &sourceError{u.path, err}
		}
		readable, err := sstable.NewSimpleReadable(f)
		if err != nil {
			return nil, &sourceError{u.path, errors.Join(err, f.Close())}
		}
		r, err := sstable.NewReader(ctx, readable, sstable.ReaderOptions{})
		if err != nil {
			return nil, &sourceError{u.path, errors.Join(err, readable.Close())}
		}
		s.readers = append(s.readers, r)
	}
	return s, nil
}

func (s *source) close() error {
	var errs []error
	for i, r := range s.readers {
		if err := r.Close(); err != nil {
			errs = append(errs, &sourceError{s.units[i].path, err})
		}
	}
	return errors.Join(errs...)
}

// from returns the number of the first unit that ends after key.
func (s *source) from(key []byte) int {
	return sort.Search(len(s.units), func(i int) bool { return bytes.Compare(s.units[i].keys.End, key) > 0 })
}

// samplesIn returns the samples of all pairs in r, by which it can be cut.
func (s *source) samplesIn(r kv.KeyRange) (found []sample) {
	for _, u := range s.units[s.from(r.Start):] {
		if r.End != nil && bytes.Compare(u.keys.Start, r.End) >= 0 {
			break
		}
		for _, sm := range u.samples {
			if r.Contains(sm.key) {
				found = append(found, sm)
			}
		}
	}
	return found
}

// mayHold says whether there may be pairs in r.
func (s *source) mayHold(r kv.KeyRange) bool {
	i := s.from(r.Start)
	return i < len(s.units) && (r.End == nil || bytes.Compare(s.units[i].keys.Start, r.End) < 0)
}

// overlaps says that there may be pairs of other imports between these.
func (s *source) overlaps() bool {
	return slices.ContainsFunc(s.units, func(u *unit) bool { return u.overlaps })
}

// bytes returns what all pairs weigh.
func (s *source) bytes() (n int64) {
	for _, u := range s.units {
		n += weigh(u.samples)
	}
	return n
}

// divide cuts r into at most n ranges of about the same weight.
func (s *source) divide(r kv.KeyRange, n int) []kv.KeyRange {
	return cut(r, evenCuts(s.samplesIn(r), int64(n)))
}

// last returns the last key in r. There must be one.
func (s *source) last(r kv.KeyRange) (key []byte, err error) {
	for i := len(s.units) - 1; i >= 0; i-- {
		u := s.units[i]
		if r.End != nil && bytes.Compare(u.keys.Start, r.End) >= 0 {
			continue
		}
		it, err := s.readers[i].NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
		if err != nil {
			return nil, &sourceError{u.path, err}
		}
		end := u.keys.End
		if r.End != nil && bytes.Compare(r.End, end) < 0 {
			end = r.End
		}
		if p := it.SeekLT(end, 0); p != nil {
			key = slices.Clone(p.K.UserKey)
		}
		if err := it.Close(); err != nil {
			return nil, &sourceError{u.path, err}
		}
		if key != nil {
			return key, nil
		}
	}
	return nil, &sourceError{"", fmt.Errorf("no keys in %s", r)}
}

// cursor walks over pairs in key order. Key and value are valid until next is called.
type cursor struct {
	source     *source
	end        []byte // nil is none
	unit       int    // of key and value
	iter       sstable.Iterator
	key, value []byte // nil at the end
}

// seek returns a cursor on the first pair in r. It is to be closed.
func (s *source) seek(r kv.KeyRange) (*cursor, error) {
	c := &cursor{source: s, end: r.End, unit: s.from(r.Start)}
	if err := c.open(r.Start); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// open goes to the first pair at or after start, in the cursor's unit or a later one.
func (c *cursor) open(start []byte) error {
	for ; c.unit < len(c.source.units); c.unit++ {
		u := c.source.units[c.unit]
		if c.end != nil && bytes.Compare(u.keys.Start, c.end) >= 0 {
			break
		}
		iter, err := c.source.readers[c.unit].NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
		if err != nil {
			return &sourceError{u.path, err}
		}
		c.iter = iter
		if p := iter.SeekGE(start, 0); p != nil && c.within(p.K.UserKey) {
			value, _, err := p.Value(nil)
			return c.take(p.K.UserKey, value, err)
		}
		if err := c.close(); err != nil {
			return err
		}
	}
	c.key, c.value = nil, nil
	return nil
}

// next goes to the next pair.
func (c *cursor) next() error {
	if p := c.iter.Next(); p != nil && c.within(p.K.UserKey) {
		value, _, err := p.Value(nil)
		return c.take(p.K.UserKey, value, err)
	}
	if err := c.close(); err != nil {
		return err
	}
	c.unit++
	return c.open(nil)
}

// within says whether the cursor goes as far as key.
func (c *cursor) within(key []byte) bool { return c.end == nil || bytes.Compare(key, c.end) < 0 }

// take makes a pair the cursor's, if its value could be read.
func (c *cursor) take(key, value []byte, err error) error {
	if err != nil {
		return &sourceError{c.source.units[c.unit].path, err}
	}
	c.key, c.value = key, value
	return nil
}

// close ends the cursor, and says what has stopped it, if that is an error.
func (c *cursor) close() error {
	if c.iter == nil {
		return nil
	}
	err := c.iter.Close()
	c.iter, c.key, c.value = nil, nil, nil
	if err != nil {
		return &sourceError{c.source.units[c.unit].path, err}
	}
	return nil
}
