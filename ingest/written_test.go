package ingest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// summingStore is a kv.Checksummer as far as an ingest job looks.
type summingStore struct{ kv.Store }

func (summingStore) Checksum(context.Context, kv.KeyRange, uint64) (kv.Checksum, error) {
	return kv.Checksum{}, nil
}

// TestWhatIsWrittenIsWhatWasAppended: what a job hands to the importer adds up to what its workers have appended, in each
// interval between the cuts, over several flushes, with spilled runs and without.
func TestWhatIsWrittenIsWhatWasAppended(t *testing.T) {
	r := newRand(t)
	for name, sums := range map[string]bool{"read": false, "summed up by the store": true} {
		for _, spilled := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")}, KeySpace{ID: 2, Prefix: []byte("b/"), Unique: true})
				if sums {
					f.opts.Store = summingStore{f.store}
				}
				job, err := Open(f.opts)
				require.NoError(t, err)
				var cuts [2][][]byte
				var samples [][]byte
				for k := range cuts {
					for range 1 + r.IntN(40) { // at keys that are appended
						i := r.Uint64N(30_000)
						cuts[k] = append(cuts[k], intKey(2*i*7919%100_000, i))
					}
					slices.SortFunc(cuts[k], slices.Compare)
					cuts[k] = slices.CompactFunc(cuts[k], slices.Equal)
					job.Cut(k, cuts[k])
				}
				for i := range uint64(200) {
					samples = append(samples, intKey(500*i, 0))
				}
				job.Partition(0, samples)
				job.Partition(1, samples)
				var want [2][]Totals
				for k := range want {
					want[k] = make([]Totals, len(cuts[k])+1)
				}
				for flush := range 2 {
					w := job.NewWorker(nil)
					for i := range uint64(30_000) {
						key := intKey((2*i+uint64(flush))*7919%100_000, i)
						pair := append(key, 'v')
						for k, prefix := range []string{"a/", "b/"} {
							require.NoError(t, w.Append(k, pair, len(key)))
							at := 0
							for at < len(cuts[k]) && slices.Compare(cuts[k][at], key) <= 0 {
								at++
							}
							if sums {
								want[k][at].AddForStore(kv.UpdateCRC(0, []byte(prefix)), pair)
							} else {
								want[k][at].AddEntry(pair, len(key))
							}
						}
						if spilled && i%7000 == 5000 {
							_, err := w.spill(f.ctx)
							require.NoError(t, err)
						}
					}
					w.Finish()
					require.NoError(t, job.Flush(f.ctx))
				}
				require.Equal(t, spilled, job.runSeq.Load() > 0)
				for k := range want {
					require.Equal(t, want[k], job.Written(k))
					require.Equal(t, job.Totals(k), SumTotals(job.Written(k)))
				}
				require.NoError(t, job.Close())
				f.requireClean(t)
			})
		}
	}
}

// importCounter counts imports.
type importCounter struct {
	kv.Store
	imports int
}

func (s *importCounter) Import(ctx context.Context, units []kv.ImportUnit) error {
	s.imports++
	return s.Store.Import(ctx, units)
}

// TestLostEntriesAreNotImported: entries that got lost, or changed, between the workers and the importer fail the flush before
// anything is imported.
func TestLostEntriesAreNotImported(t *testing.T) {
	for name, damage := range map[string]func(idx *jobIndex){
		"entries of a partition are lost": func(idx *jobIndex) {
			i := slices.IndexFunc(idx.buckets, func(b bucket) bool { return len(b) > 0 })
			for _, a := range idx.buckets[i] {
				a.release()
			}
			idx.buckets[i] = nil
		},
		"more entries are written than appended": func(idx *jobIndex) {
			idx.totals.Entries--
			idx.totals.Bytes -= 3
		},
		"a bit has flipped": func(idx *jobIndex) { idx.totals.Checksum ^= 1 << 40 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")}, KeySpace{ID: 2, Prefix: []byte("b/")})
			store := &importCounter{Store: f.store}
			f.opts.Store = store
			job, err := Open(f.opts)
			require.NoError(t, err)
			job.Partition(1, [][]byte{intKey(0, 0), intKey(300, 0), intKey(600, 0)})
			w := job.NewWorker(nil)
			for i := range uint64(1000) {
				key := intKey(i, 0)
				require.NoError(t, w.Append(0, append(key, 'v'), len(key)))
				require.NoError(t, w.Append(1, append(key, 'v'), len(key)))
			}
			w.Finish()
			damage(&job.indexes[1])
			err = job.Flush(f.ctx)
			var written *WrittenError
			require.ErrorAs(t, err, &written)
			require.Equal(t, 1, written.Index)
			require.NotEqual(t, written.Appended, written.Written)
			require.Zero(t, store.imports)
			require.NoError(t, job.Close())
			f.requireClean(t)
		})
	}
}
