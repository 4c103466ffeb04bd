package pebblekv

import (
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
	if err := i.open(v, r); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	for valid := i.it.First(); valid; valid = i.it.Valid() {
		if i.steps++; i.steps%refreshCheck == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		key, ts, err := splitVersion(i.it.Key())
		if err != nil {
			return 0, err
		}
		if ts > v.ts {
			i.skipNewer(key)
			continue
		}
		if value := i.it.LazyValue(); value.Len() > 0 {
			n++
		}
		i.it.NextPrefix()
	}
	return n, i.it.Error()
}
