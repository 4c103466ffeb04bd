package ingest

import (
	"bytes"
	"fmt"
	"slices"

	"fastddl/internal/invariants"
	"fastddl/kv"
)

// WrittenError reports that the entries which flushes have handed to the importer are not those that were appended.
type WrittenError struct {
	// Index is the position of the index in the job.
	Index int
	// Appended is what the workers have appended, Written what was written, since the job was opened.
	Appended, Written Totals
}

func (e *WrittenError) Error() string {
	return fmt.Sprintf("ingest: %d entries with checksum %x of index %d were appended, %d with %x written",
		e.Appended.Entries, e.Appended.Checksum^e.Appended.CRC, e.Index, e.Written.Entries, e.Written.Checksum^e.Written.CRC)
}

// Cut divides what is written of the i-th index into intervals, each with totals of its own: cuts are keys without the
// index prefix, in ascending order, each the first one of an interval behind the first. It must be called before Flush.
func (j *Job) Cut(i int, cuts [][]byte) {
	invariants.Check(slices.IsSortedFunc(cuts, bytes.Compare), "cuts of index %d are not in order", i)
	j.indexes[i].cuts = cuts
	j.indexes[i].written = make([]Totals, len(cuts)+1)
}

// Written returns the totals of what all flushes have handed to the importer of the i-th index, by interval.
func (j *Job) Written(i int) []Totals {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.indexes[i].written)
}

// checkWritten fails with a WrittenError if what was written of an index is not what was appended.
func (j *Job) checkWritten() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.indexes {
		if sum := SumTotals(j.indexes[i].written); sum != j.indexes[i].totals {
			return &WrittenError{Index: i, Appended: j.indexes[i].totals, Written: sum}
		}
	}
	return nil
}

// writtenEntries returns how many entries all flushes have handed to the importer.
func (j *Job) writtenEntries() (n int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.indexes {
		n += SumTotals(j.indexes[i].written).Entries
	}
	return n
}

// SumTotals adds totals up.
func SumTotals(all []Totals) (sum Totals) {
	for _, t := range all {
		sum.Add(t)
	}
	return sum
}

// tally sums up what one goroutine hands to the importer of an index, by interval. Entries come in key order.
type tally struct {
	cuts      [][]byte
	at        int // the interval of the last entry
	sums      []Totals
	prefix    int    // length of the index prefix
	forStore  bool   // as a kv.Checksummer does
	prefixCRC uint64 // if forStore
}

// newTally returns a tally of what is written of the i-th index.
func (j *Job) newTally(i int) *tally {
	idx := &j.indexes[i]
	t := &tally{cuts: idx.cuts, sums: make([]Totals, len(idx.cuts)+1), prefix: len(idx.spec.Prefix), forStore: j.storeSums}
	if t.forStore {
		t.prefixCRC = kv.UpdateCRC(0, idx.spec.Prefix)
	}
	return t
}

// add adds a batch, whose keys have the index prefix.
func (t *tally) add(batch *records) {
	n := batch.len()
	if n == 0 {
		return
	}
	last := batch.key(n - 1)[t.prefix:]
	inside := t.at == len(t.cuts) || bytes.Compare(last, t.cuts[t.at]) < 0 // no entry is behind the interval
	for i := range n {
		if !inside {
			key := batch.key(i)[t.prefix:]
			for t.at < len(t.cuts) && bytes.Compare(key, t.cuts[t.at]) >= 0 {
				t.at++
			}
		}
		t.addEntry(&t.sums[t.at], batch.recs[i], batch.data)
	}
}

func (t *tally) addEntry(sum *Totals, r rec, data []byte) {
	pair := data[r.start+uint32(t.prefix) : r.end]
	if t.forStore {
		sum.AddForStore(t.prefixCRC, pair)
	} else {
		sum.AddEntry(pair, int(r.key-r.start)-t.prefix)
	}
}

// addWritten adds what a goroutine has written of the i-th index.
func (j *Job) addWritten(i int, t *tally) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for k := range t.sums {
		j.indexes[i].written[k].Add(t.sums[k])
	}
}
