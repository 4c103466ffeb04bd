package pebblekv

import (
	"bytes"
	"context"
	"errors"

	"fastddl/kv"
)

// count returns the number of keys in r that v shows. It looks at keys and at the
// length of values only.
func count(ctx context.Context, v view, r kv.KeyRange) (n int64, err error) {
	if r.Empty() {
		return 0, ctx.Err()
	}
	var i forwardIter
	if err := i.open(ctx, v, r); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	// Most keys have one version, and a step to the next one is cheaper than a jump to
	// the next key.
	i.it.First()
	for i.it.Valid() {
		if moved, err := i.step(); err != nil {
			return 0, err
		} else if moved {
			continue
		}
		key, ts, err := splitVersion(i.it.Key())
		if err != nil {
			return 0, err
		}
		if i.valid && bytes.Equal(key, i.key) {
			i.it.NextPrefix() // an older version of the key before
			continue
		}
		if ts > v.ts {
			i.skipNewer(key)
			continue
		}
		i.key, i.valid = append(i.key[:0], key...), true
		if value := i.it.LazyValue(); value.Len() > 0 {
			n++
		}
		i.it.Next()
	}
	return n, i.it.Error()
}
