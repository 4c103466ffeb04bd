package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"

	"fastddl/kv"
)

const (
	// An engine iterator keeps memtables and files alive that have been flushed
	// and compacted since. After maxEngineIterAge it is replaced by a fresh one,
	// which MVCC makes invisible; the age is looked at every refreshCheck steps.
	maxEngineIterAge = 10 * time.Second
	refreshCheck     = 1024
	// stepsBeforeSeek is how many versions are stepped over one by one before a
	// seek is thought to be cheaper.
	stepsBeforeSeek = 4
)

// versionsWithin is the filter of an iterator that need not see blocks without versions from
// first to last. The slice has room for the filter that the engine appends.
func versionsWithin(first, last uint64) []pebble.BlockPropertyFilter {
	return append(make([]pebble.BlockPropertyFilter, 0, 2), cockroachkvs.NewMVCCTimeIntervalFilter(first, last))
}

// cursor is what both directions of iteration share: an engine iterator over
// the versions of a range, and the entry it stands on.
type cursor struct {
	ctx    context.Context
	view   view
	bounds pebble.IterOptions
	inside bool // the store, until Close
	it     *pebble.Iterator
	opened time.Time
	steps  int

	// key is a copy, because finding the next key needs it when the engine
	// iterator has moved on already.
	key   []byte
	value []byte
	ts    uint64
	valid bool
	seek  []byte // scratch
	// skippedTS and skippedKey name the last version met that is too new.
	skippedTS  uint64
	skippedKey []byte
}

// skipped notes a version that is too new to be seen.
func (c *cursor) skipped(key []byte, ts uint64) {
	c.skippedTS, c.skippedKey = ts, append(c.skippedKey[:0], key...)
}

// open enters the store and opens the engine iterator. ctx ends a walk, also one over keys
// that are not shown, of which there may be millions between two that are.
func (c *cursor) open(ctx context.Context, v view, r kv.KeyRange) error {
	if err := v.store.gate.enter(); err != nil {
		return err
	}
	c.ctx, c.view, c.inside = ctx, v, true
	c.bounds.LowerBound, c.bounds.UpperBound = engineBounds(r)
	if err := c.reopen(); err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// reopen replaces the engine iterator.
func (c *cursor) reopen() error {
	if err := c.closeEngine(); err != nil {
		return err
	}
	it, err := c.view.store.db.NewIter(&c.bounds)
	if err != nil {
		return err
	}
	c.it, c.opened = it, time.Now()
	return nil
}

// closeEngine closes the engine iterator, but not again: the engine hands its memory to the
// next one that is opened.
func (c *cursor) closeEngine() error {
	it := c.it
	if it == nil {
		return nil
	}
	c.it = nil
	return it.Close()
}

// Valid implements kv.Iterator.
func (c *cursor) Valid() bool { return c.valid }

// Key implements kv.Iterator.
func (c *cursor) Key() []byte { return c.key }

// Value implements kv.Iterator.
func (c *cursor) Value() []byte { return c.value }

// TS implements kv.Iterator.
func (c *cursor) TS() uint64 { return c.ts }

// Close implements kv.Iterator. Closing twice does nothing.
func (c *cursor) Close() error {
	c.valid = false
	if !c.inside {
		return nil
	}
	c.inside = false
	defer c.view.store.gate.exit()
	return c.closeEngine()
}

// fail ends the iteration with an error.
func (c *cursor) fail(err error) error {
	c.valid = false
	return err
}

// step counts a key that is met, shown or not. It says from time to time whether the walk is
// to go on, and whether the engine iterator is to be replaced.
func (c *cursor) step() (stale bool, err error) {
	c.steps++
	if c.steps%refreshCheck != 0 {
		return false, nil
	}
	return time.Since(c.opened) > maxEngineIterAge, c.ctx.Err()
}

// forwardIter iterates in ascending order.
type forwardIter struct {
	cursor
	visited int // entries that it has stood on since takeVisited
}

// takeVisited returns how many entries the iterator has stood on since the last call.
func (i *forwardIter) takeVisited() int {
	n := i.visited
	i.visited = 0
	return n
}

func newForwardIter(ctx context.Context, v view, r kv.KeyRange, filters ...pebble.BlockPropertyFilter) (*forwardIter, error) {
	i := &forwardIter{cursor: cursor{bounds: pebble.IterOptions{PointKeyFilters: filters}}}
	if r.Empty() {
		return i, nil
	}
	if err := i.open(ctx, v, r); err != nil {
		return nil, err
	}
	i.it.First()
	if err := i.settle(false); err != nil {
		_ = i.Close()
		return nil, err
	}
	return i, nil
}

// Next implements kv.Iterator.
func (i *forwardIter) Next() error {
	if !i.valid {
		return nil
	}
	i.it.Next()
	return i.settle(true)
}

// step is called where the engine iterator stands on a version. If it had to be replaced, it
// may have moved: on to another key, or behind the last one, if the version was collected.
func (i *forwardIter) step() (moved bool, err error) {
	stale, err := i.cursor.step()
	if err != nil || !stale {
		return false, err
	}
	i.seek = append(i.seek[:0], i.it.Key()...)
	if err := i.reopen(); err != nil {
		return false, err
	}
	i.it.SeekGE(i.seek)
	return true, nil
}

// settle finds the first live key from the engine iterator's position on. With
// skipCurrent the position may still be on an older version of i.key.
func (i *forwardIter) settle(skipCurrent bool) error {
	for i.it.Valid() {
		if moved, err := i.step(); err != nil {
			return i.fail(err)
		} else if moved {
			continue
		}
		key, ts, err := splitVersion(i.it.Key())
		if err != nil {
			return i.fail(err)
		}
		if skipCurrent {
			skipCurrent = false
			if bytes.Equal(key, i.key) {
				i.it.NextPrefix()
				continue
			}
		}
		if ts > i.view.ts {
			i.skipped(key, ts)
			i.skipNewer(key)
			continue
		}
		value, err := i.it.ValueAndErr()
		if err != nil {
			return i.fail(err)
		}
		if len(value) == 0 {
			i.it.NextPrefix()
			continue
		}
		i.key = append(i.key[:0], key...)
		i.value, i.ts, i.valid = value, ts, true
		i.visited++
		return nil
	}
	return i.fail(i.it.Error())
}

// skipNewer moves past the versions of key that are too new. It may end on the
// next key.
func (i *forwardIter) skipNewer(key []byte) {
	i.seek = appendVersion(i.seek[:0], key, i.view.ts)
	bare := i.seek[:len(key)+1]
	for range stepsBeforeSeek {
		if !i.it.Next() {
			return
		}
		if !sameUserKey(i.it.Key(), bare) {
			return
		}
		if _, ts, err := splitVersion(i.it.Key()); err != nil || ts <= i.view.ts {
			return
		}
	}
	i.it.SeekGE(i.seek)
}

// reverseIter iterates in descending order. The engine iterator always stands
// before the current key: on the oldest version of the one to come.
type reverseIter struct {
	cursor
	valueBuf []byte
}

func newReverseIter(ctx context.Context, v view, r kv.KeyRange, filters ...pebble.BlockPropertyFilter) (*reverseIter, error) {
	i := &reverseIter{cursor: cursor{bounds: pebble.IterOptions{PointKeyFilters: filters}}}
	if r.Empty() {
		return i, nil
	}
	if err := i.open(ctx, v, r); err != nil {
		return nil, err
	}
	i.it.Last()
	if err := i.settle(); err != nil {
		_ = i.Close()
		return nil, err
	}
	return i, nil
}

// Next implements kv.Iterator.
func (i *reverseIter) Next() error {
	if !i.valid {
		return nil
	}
	return i.settle()
}

// settle finds the last live key from the engine iterator's position down.
func (i *reverseIter) settle() error {
	for i.it.Valid() {
		key, _, err := splitVersion(i.it.Key())
		if err != nil {
			return i.fail(err)
		}
		i.key = append(i.key[:0], key...)
		if stale, err := i.step(); err != nil {
			return i.fail(err)
		} else if stale {
			if err := i.reopen(); err != nil {
				return i.fail(err)
			}
			i.it.SeekLT(appendBare(i.seek[:0], kv.NextKey(i.key)))
			continue
		}
		found, err := i.newestVisible()
		if err != nil {
			return i.fail(err)
		}
		if found {
			i.valid = true
			return nil
		}
	}
	return i.fail(i.it.Error())
}

// newestVisible walks from the oldest version of i.key to its newest one and
// keeps the last value that is not too new. It leaves the engine iterator
// before the key.
func (i *reverseIter) newestVisible() (found bool, err error) {
	for step := 0; i.it.Valid(); step++ {
		key, ts, err := splitVersion(i.it.Key())
		if err != nil {
			return false, err
		}
		if !bytes.Equal(key, i.key) {
			return found, nil
		}
		if ts > i.view.ts {
			// All that is left of this key is newer still.
			i.skipped(key, ts)
			i.leaveKey()
			return found, nil
		}
		if step == stepsBeforeSeek {
			return i.seekVisible()
		}
		if found, err = i.keepValue(ts); err != nil {
			return false, err
		}
		i.it.Prev()
	}
	return found, i.it.Error()
}

// seekVisible is the way of newestVisible for keys with many versions.
func (i *reverseIter) seekVisible() (found bool, err error) {
	i.seek = appendVersion(i.seek[:0], i.key, i.view.ts)
	if !i.it.SeekGE(i.seek) {
		return false, i.it.Error()
	}
	_, ts, err := splitVersion(i.it.Key())
	if err != nil {
		return false, err
	}
	if found, err = i.keepValue(ts); err != nil {
		return false, err
	}
	// What is newer lies between here and the key before.
	if i.it.Prev() {
		key, ts, err := splitVersion(i.it.Key())
		if err != nil {
			return false, err
		}
		if bytes.Equal(key, i.key) {
			i.skipped(key, ts)
			i.leaveKey()
		}
	}
	return found, nil
}

// leaveKey moves from a version of i.key to the key before.
func (i *reverseIter) leaveKey() {
	i.seek = appendBare(i.seek[:0], i.key)
	for range stepsBeforeSeek {
		if !i.it.Prev() || !sameUserKey(i.it.Key(), i.seek) {
			return
		}
	}
	i.it.SeekLT(i.seek)
}

// keepValue copies the value at the engine iterator's position, which is of the
// version ts, and reports whether it is one rather than a tombstone.
func (i *reverseIter) keepValue(ts uint64) (bool, error) {
	value, err := i.it.ValueAndErr()
	if err != nil {
		return false, err
	}
	i.valueBuf = append(i.valueBuf[:0], value...)
	i.value, i.ts = i.valueBuf, ts
	return len(value) > 0, nil
}
