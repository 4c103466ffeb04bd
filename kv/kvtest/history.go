package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// record is what one commit wrote, or one snapshot read.
type record struct {
	ts    uint64
	pairs map[string]string // "" is a deletion, or a missing key
}

// testHistory runs random commits and snapshot readers at once, and checks
// afterwards that every read returned exactly the newest value committed at or
// below its timestamp.
func testHistory(e *env) {
	rnd := e.seeded()
	const writers, readers, rounds, keys = 4, 2, 150, 25
	var mu sync.Mutex
	var commits, reads []record
	seeds := make([]uint64, writers+readers)
	for i := range seeds {
		seeds[i] = rnd.Uint64()
	}
	parallel(e, writers+readers, func(w int) error {
		rnd := rand.New(rand.NewPCG(seeds[w], 0))
		for n := range rounds {
			rec, err := record{}, error(nil)
			if w < writers {
				rec, err = randomCommit(e, rnd, keys, fmt.Sprintf("%d.%d", w, n))
			} else {
				rec, err = readAll(e, keys)
			}
			if err != nil {
				return err
			}
			mu.Lock()
			if w < writers {
				commits = append(commits, rec)
			} else {
				reads = append(reads, rec)
			}
			mu.Unlock()
		}
		return nil
	})
	checkHistory(e, commits, reads)
}

func randomCommit(e *env, rnd *rand.Rand, keys int, id string) (record, error) {
	rec := record{pairs: map[string]string{}}
	for i := range 1 + rnd.IntN(4) {
		k := fmt.Sprint(rnd.IntN(keys))
		rec.pairs[k] = fmt.Sprintf("%s.%d", id, i)
		if rnd.IntN(4) == 0 {
			rec.pairs[k] = ""
		}
	}
	var err error
	rec.ts, err = e.commit(context.Background(), rec.pairs)
	return rec, err
}

// readAll reads all keys at a fresh timestamp.
func readAll(e *env, keys int) (record, error) {
	ctx := context.Background()
	ts, err := e.store.CurrentTS(ctx)
	if err != nil {
		return record{}, err
	}
	snap, err := e.store.Snapshot(ctx, ts)
	if err != nil {
		return record{}, err
	}
	rec := record{ts: ts, pairs: map[string]string{}}
	for k := range keys {
		key := fmt.Sprint(k)
		v, err := snap.Get(ctx, e.key("%s", key))
		if err != nil && !errors.Is(err, kv.ErrNotExist) {
			return record{}, errors.Join(err, snap.Close())
		}
		rec.pairs[key] = string(v)
	}
	return rec, snap.Close()
}

func checkHistory(e *env, commits, reads []record) {
	e.Helper()
	slices.SortFunc(commits, func(a, b record) int { return int(int64(a.ts - b.ts)) })
	for i := 1; i < len(commits); i++ {
		require.NotEqual(e, commits[i-1].ts, commits[i].ts, "two commits at one timestamp")
	}
	for _, r := range reads {
		for k, got := range r.pairs {
			want := ""
			for _, c := range commits {
				if v, wrote := c.pairs[k]; wrote && c.ts <= r.ts {
					want = v
				}
			}
			require.Equal(e, want, got, "key %s at %d", k, r.ts)
		}
	}
}
