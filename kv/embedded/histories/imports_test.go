package histories

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"fastddl/kv"
)

const (
	mirrorRows  = 24
	mirrorLooks = 20
)

// imports is the workload of rows and, beside them, entries that are built as an index is: from some moment on every
// transaction that writes a row writes its entry; S is taken; the rows at S become entries at S, imported past the
// transactions; and from then on rows and entries are equal at every timestamp.
type imports struct {
	*run
	// maintained is the number of the entries that transactions write, 0 for none. It is changed when no transaction is
	// open, as the metadata lock sees to it.
	open       sync.RWMutex
	maintained int

	looks atomic.Int64
	mu    sync.Mutex
	wrong []string
}

func newImports(r *run) workload { return &imports{run: r} }

func rowKey(i int) []byte { return fmt.Appendf(nil, "row/%02d", i) }

func entryKey(index, i int) []byte { return fmt.Appendf(nil, "entry/%06d/%02d", index, i) }

// transact implements workload: the first session builds, the others write.
func (w *imports) transact(ctx context.Context, session int, rng *rand.Rand) {
	if session == 0 {
		w.build(ctx, rng)
		return
	}
	w.open.RLock()
	defer w.open.RUnlock()
	tx, err := w.client(rng).Begin()
	if err != nil {
		return
	}
	tx.SetEnable1PC(rng.IntN(2) == 0)
	if err := w.write(ctx, tx, rng); err != nil {
		_ = tx.Rollback()
		return
	}
	outcome, _, err := w.commit(ctx, tx)
	w.count("write", outcome, err)
}

// write changes some rows, and their entries.
func (w *imports) write(ctx context.Context, tx *transaction.KVTxn, rng *rand.Rand) error {
	for range 1 + rng.IntN(3) {
		i := rng.IntN(mirrorRows)
		value, err := tx.Get(ctx, rowKey(i))
		if err != nil && !tikverr.IsErrNotFound(err) {
			return err
		}
		keys := [][]byte{rowKey(i)}
		if w.maintained != 0 {
			keys = append(keys, entryKey(w.maintained, i))
		}
		next, gone := encodeInt(decodeInt(value)+1), rng.IntN(4) == 0
		for _, key := range keys {
			if gone {
				err = tx.Delete(key)
			} else {
				err = tx.Set(key, next)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// build builds the next entries, and looks at them.
func (w *imports) build(ctx context.Context, rng *rand.Rand) {
	w.open.Lock()
	w.maintained++
	index := w.maintained
	w.open.Unlock()
	time.Sleep(time.Duration(rng.IntN(5000)) * time.Microsecond)
	l := w.cluster.current()
	if err := w.importEntries(ctx, l.store.Builds(), index, rng); err != nil || !w.cluster.alive(l) {
		w.count("build", Aborted, err)
		return
	}
	w.count("build", Committed, nil)
	for range mirrorLooks {
		w.compare(index, rng)
	}
}

// importEntries imports the rows at S as entries at S.
func (w *imports) importEntries(ctx context.Context, store kv.Store, index int, rng *rand.Rand) error {
	at, err := store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	snapshot, err := store.Snapshot(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = snapshot.Close() }()
	it, err := snapshot.Iter(kv.KeyRange{Start: rowKey(0), End: rowKey(mirrorRows)})
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	if !it.Valid() {
		return nil
	}
	unit, err := store.NewImportWriter(ctx, kv.ImportOptions{Dir: "units", Version: at})
	if err != nil {
		return err
	}
	for ; it.Valid() && err == nil; err = it.Next() {
		i := 0
		if _, err := fmt.Sscanf(string(it.Key()), "row/%d", &i); err != nil {
			return err
		}
		if err := unit.Add(entryKey(index, i), it.Value()); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	finished, err := unit.Finish(ctx)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(rng.IntN(5000)) * time.Microsecond)
	return store.Import(ctx, []kv.ImportUnit{finished})
}

// compare compares rows and entries at a fresh timestamp.
func (w *imports) compare(index int, rng *rand.Rand) {
	ts, rows, entries, err := w.look(index, rng)
	if err != nil {
		w.count("comparison", Aborted, err)
		return
	}
	w.count("comparison", Committed, nil)
	w.looks.Add(1)
	if !maps.Equal(rows, entries) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wrong = append(w.wrong, fmt.Sprintf("at %d the rows are %v, the entries %d are %v", ts, rows, index, entries))
	}
}

// look reads rows and entries at a fresh timestamp.
func (w *imports) look(index int, rng *rand.Rand) (ts uint64, rows, entries map[int]int, err error) {
	tx, err := w.client(rng).Begin()
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = tx.Rollback() }()
	if rows, err = w.contents(tx, rowKey(0), rowKey(mirrorRows), "row/%d"); err == nil {
		entries, err = w.contents(tx, entryKey(index, 0), entryKey(index, mirrorRows), fmt.Sprintf("entry/%06d/%%d", index))
	}
	return tx.StartTS(), rows, entries, err
}

func (w *imports) contents(tx *transaction.KVTxn, from, to []byte, format string) (map[int]int, error) {
	it, err := tx.Iter(from, to)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	found := make(map[int]int)
	for it.Valid() {
		i := 0
		if _, err := fmt.Sscanf(string(it.Key()), format, &i); err != nil {
			return nil, err
		}
		found[i] = decodeInt(it.Value())
		if err := it.Next(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// finish implements workload.
func (w *imports) finish(ctx context.Context) (report Report) {
	report.Txns, report.Reads = int(w.looks.Load()), int(w.looks.Load())*mirrorRows*2
	for _, wrong := range w.wrong {
		report.add(ReadSkew, "%s", wrong)
	}
	return report
}
