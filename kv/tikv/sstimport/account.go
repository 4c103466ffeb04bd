package sstimport

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/pingcap/kvproto/pkg/import_sstpb"

	"fastddl/kv"
)

// account is what the stores have taken of the units of one import. It is kept apart from the walk over the regions: a unit
// is complete when the parts of the key space that were taken tile its keys, and the pairs in the files of these parts, as they
// were sent, add up to those that were added to it. TiKV's answers have no counts: TxnSstWriter.finish
// (components/sst_importer/src/sst_writer.rs) repeats the metadata that it was sent.
type account struct {
	units []*unit

	mu      sync.Mutex
	missing []kv.Checksum // of each unit: what was added and is in no file that was taken
	taken   []kv.KeyRange // in order; none touches the next
}

// sentFile is a part of the keys of a region, and the files that all of its peers have made of the pairs there: one of entries,
// and one of long values if there are any. A part without pairs has no files.
type sentFile struct {
	keys  kv.KeyRange
	id    []byte                  // the UUID of the files
	sums  map[int]*kv.Checksum    // of the pairs in the messages to stores, by the number of their unit
	sent  int64                   // pairs in messages that all peers were sent
	metas []*import_sstpb.SSTMeta // as the leader has answered
	took  map[string]int          // how often the leader has taken each, by its column family
	next  []byte                  // where what was not sent begins; nil if nothing is left
}

func newAccount(units []*unit) *account {
	a := &account{units: units, missing: make([]kv.Checksum, len(units))}
	for i, u := range units {
		a.missing[i] = u.sum
	}
	return a
}

// settle notes that the region's leader has taken files. It fails with *kv.ImportAccountError if one was not
// taken, or twice, or if keys of its part were taken before.
func (a *account) settle(files []*sentFile) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range files {
		if err := f.check(); err != nil {
			return err
		}
		if err := a.cover(f.keys); err != nil {
			return err
		}
		for unit, sum := range f.sums {
			a.missing[unit].Add(kv.Checksum{Pairs: -sum.Pairs, Bytes: -sum.Bytes, CRC: sum.CRC})
		}
	}
	return nil
}

// check says whether all pairs were sent, and the leader has taken each file of the part once.
func (f *sentFile) check() error {
	for _, meta := range f.metas {
		if n := f.took[meta.CfName]; n != 1 {
			return &kv.ImportAccountError{Range: f.keys, Problem: fmt.Sprintf("the file %x of %s was taken %d times", f.id, meta.CfName, n)}
		}
	}
	pairs := int64(0)
	for _, sum := range f.sums {
		pairs += sum.Pairs
	}
	switch {
	case pairs != f.sent:
		return &kv.ImportAccountError{Range: f.keys, Problem: fmt.Sprintf("of %d pairs %d were sent", pairs, f.sent)}
	case pairs > 0 && f.took[entriesFamily] == 0 || len(f.took) != len(f.metas):
		return &kv.ImportAccountError{Range: f.keys, Problem: fmt.Sprintf("%d files were taken, the stores have made %d", len(f.took), len(f.metas))}
	}
	return nil
}

// cover adds a part that was taken. The caller holds mu.
func (a *account) cover(part kv.KeyRange) error {
	i := sort.Search(len(a.taken), func(i int) bool { return bytes.Compare(a.taken[i].Start, part.Start) >= 0 })
	for _, other := range a.taken[max(0, i-1):min(i+1, len(a.taken))] {
		if !other.Intersect(part).Empty() {
			return &kv.ImportAccountError{Range: part, Problem: fmt.Sprintf("keys of %s were taken before", other)}
		}
	}
	a.taken = joined(slices.Insert(a.taken, i, part))
	return nil
}

// complete returns the units of which all pairs were taken.
func (a *account) complete() (units []*unit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, u := range a.units {
		if a.problem(i) == "" {
			units = append(units, u)
		}
	}
	return units
}

// close fails with *kv.ImportAccountError unless all units are complete.
func (a *account) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, u := range a.units {
		if problem := a.problem(i); problem != "" {
			return &kv.ImportAccountError{Range: u.keys, Problem: problem}
		}
	}
	return nil
}

// problem says what is wrong with what was taken of a unit; it is empty if nothing is. The caller holds mu.
func (a *account) problem(unit int) string {
	u, left := a.units[unit], a.missing[unit]
	within := func(part kv.KeyRange) bool {
		return bytes.Compare(part.Start, u.keys.Start) <= 0 && (part.End == nil || bytes.Compare(u.keys.End, part.End) <= 0)
	}
	switch {
	case !slices.ContainsFunc(a.taken, within):
		return "the parts that were taken do not cover it"
	case left != (kv.Checksum{}):
		return fmt.Sprintf("of %d pairs %d were taken; the sums differ by %d bytes and the checksum %x", u.count, int64(u.count)-left.Pairs, left.Bytes, left.CRC)
	}
	return ""
}
