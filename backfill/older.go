package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

// maxOlder is how many keys with versions from before S are looked up.
const maxOlder = 10_000

// errManyOlder says that more keys have such versions.
var errManyOlder = errors.New("backfill: many entries have versions from before the build's snapshot")

// older is what DML wrote to the indexes before S.
type older struct {
	known bool // all keys are
	keys  []olderKey
}

type olderKey struct {
	index int // in the spec
	key   []byte
}

// findOlder finds the keys of the indexes that have versions from before S. That is at the beginning: later on garbage
// collection may have passed the time of which the indexes had no entries.
func (b *build) findOlder(ctx context.Context) error {
	finder, ok := b.opts.Store.(kv.ChangeFinder)
	if !ok || !b.auto || b.since == 0 {
		return nil
	}
	for _, r := range b.IndexRanges() {
		err := finder.Changes(ctx, r.KeyRange, b.since, b.Task.TS-1, func(key []byte) error {
			if len(b.older.keys) == maxOlder {
				return errManyOlder
			}
			b.older.keys = append(b.older.keys, olderKey{r.Index, bytes.Clone(key)})
			return nil
		})
		if errors.Is(err, errManyOlder) || errors.Is(err, kv.ErrSnapshotTooOld) {
			b.older.keys = nil
			return nil
		}
		if err != nil {
			return fmt.Errorf("backfill: entries from before the snapshot: %w", err)
		}
	}
	b.older.known = true
	return nil
}

// onlyImported says that the indexes have at S no entries but those of the build: what DML wrote to them before S, where each
// row has an entry of the build, is shadowed by that or was deleted. It says no if that cannot be found out without reading
// all entries, and fails with a MismatchError if there is another entry. A store that does not know what has changed is not
// asked.
func (v *verifier) onlyImported(ctx context.Context) (bool, error) {
	if _, ok := v.b.opts.Store.(kv.ChangeFinder); !ok {
		return true, nil
	}
	if !v.b.older.known {
		return false, nil
	}
	keys := v.b.older.keys
	parts := min(len(keys), max(1, v.b.opts.MaxWorkers))
	return true, parallel.Do(ctx, parts, v.b.Share.Workers, func(ctx context.Context, i int) error {
		return v.checkOlder(ctx, keys[len(keys)*i/parts:len(keys)*(i+1)/parts])
	})
}

// checkOlder fails unless each of the keys has no entry at S or one of the build.
func (v *verifier) checkOlder(ctx context.Context, keys []olderKey) error {
	pacer, end := v.b.StartVerifying()
	defer end()
	for _, k := range keys {
		if err := pacer.Pace(ctx); err != nil {
			return err
		}
		foreign, err := v.isForeign(k.key)
		if err != nil {
			return fmt.Errorf("backfill: verify: %w", err)
		}
		if foreign {
			want := v.cp.Indexes[k.index].Totals
			return &MismatchError{
				Index: v.b.Task.Indexes[k.index].Name.O, Want: want, Got: ingest.Totals{Entries: want.Entries + 1}, Where: "stored, or more,",
			}
		}
	}
	return nil
}

// isForeign says that the entry at key has another version than the build's.
func (v *verifier) isForeign(key []byte) (foreign bool, err error) {
	iter, err := v.snap.Iter(kv.KeyRange{Start: key, End: kv.NextKey(key)})
	if err != nil {
		return false, err
	}
	defer func() { err = errs.Combine(err, iter.Close()) }()
	if !iter.Valid() {
		return false, nil
	}
	versioned, ok := iter.(kv.VersionedIterator)
	return !ok || versioned.TS() != v.b.Task.TS, nil
}
