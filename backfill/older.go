package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// maxOlder is how many keys with versions from before S are looked up.
const maxOlder = 10_000

// errManyOlder says that more keys have such versions.
var errManyOlder = errors.New("backfill: many entries have versions from before the build's snapshot")

// onlyImported says that the indexes have at S no entries but those of the build: what DML wrote to them before S, where each
// row has an entry of the build, is shadowed by that or was deleted. It says no if that cannot be found out without reading
// all entries, and fails with a MismatchError if there is another entry. A store that does not know what has changed is not
// asked.
func (v *verifier) onlyImported(ctx context.Context) (bool, error) {
	finder, ok := v.b.opts.Store.(kv.ChangeFinder)
	if !ok {
		return true, nil
	}
	if v.b.since == 0 {
		return false, nil
	}
	for _, r := range v.b.IndexRanges() {
		var keys [][]byte
		err := finder.Changes(ctx, r.KeyRange, v.b.since, v.b.Task.TS-1, func(key []byte) error {
			if len(keys) == maxOlder {
				return errManyOlder
			}
			keys = append(keys, bytes.Clone(key))
			return nil
		})
		if errors.Is(err, errManyOlder) || errors.Is(err, kv.ErrSnapshotTooOld) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("backfill: verify: %w", err)
		}
		if err := v.checkOlder(ctx, r, keys); err != nil {
			return false, err
		}
	}
	return true, nil
}

// checkOlder fails unless each of the keys, which are in order, has no entry at S or one of the build.
func (v *verifier) checkOlder(ctx context.Context, r keyrange.Indexed, keys [][]byte) error {
	pacer, end := v.b.StartVerifying()
	defer end()
	for _, key := range keys {
		if err := pacer.Pace(ctx); err != nil {
			return err
		}
		foreign, err := v.isForeign(key)
		if err != nil {
			return fmt.Errorf("backfill: verify: %w", err)
		}
		if foreign {
			want := v.cp.Indexes[r.Index].Totals
			return &MismatchError{
				Index: v.b.Task.Indexes[r.Index].Name.O, Want: want, Got: ingest.Totals{Entries: want.Entries + 1}, Where: "stored, or more,",
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
