package sql

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"

	"fastddl/kv"
	"fastddl/table"
)

const (
	// statsMaxAge is how old an estimate may get before it is made anew in the
	// background.
	statsMaxAge = time.Minute
	// statsSampleRows is how many rows are read to learn their width. A table
	// with fewer rows is counted exactly.
	statsSampleRows = 1000
	// statsBlindBytes is how much data the store's sizes may leave out: what it
	// still holds in memory.
	statsBlindBytes = 128 << 20
)

// statistics estimates the sizes of tables. It never scans a whole table: it
// reads some rows, divides the store's size of the table by their width, and
// keeps count of the rows that transactions add and remove.
type statistics struct {
	store  kv.Store
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	tables map[int64]*tableStats
}

// tableStats is the estimate for one table.
type tableStats struct {
	rows     atomic.Int64
	rowBytes atomic.Int64

	mu         sync.Mutex
	made       time.Time
	refreshing bool
}

func newStatistics(store kv.Store) *statistics {
	s := &statistics{store: store, tables: make(map[int64]*tableStats)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close waits for the estimates being made.
func (s *statistics) close() {
	s.cancel()
	s.wg.Wait()
}

func (s *statistics) of(tableID int64) *tableStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tables[tableID]
	if !ok {
		t = &tableStats{}
		s.tables[tableID] = t
	}
	return t
}

// add notes rows that a transaction has added to tables.
func (s *statistics) add(rows map[int64]int64) {
	for id, n := range rows {
		t := s.of(id)
		if t.rows.Add(n) < 0 {
			t.rows.Store(0)
		}
	}
}

// get returns the estimated number of rows of a table and their width in bytes.
// The first call for a table makes the estimate, later ones at most start a new
// one.
func (s *statistics) get(ctx context.Context, tableID int64) (rows, rowBytes uint64, err error) {
	t := s.of(tableID)
	t.mu.Lock()
	switch age := time.Since(t.made); {
	case t.made.IsZero():
		err = s.estimate(ctx, tableID, t)
		if err == nil {
			t.made = time.Now()
		}
	case age > statsMaxAge && !t.refreshing && s.ctx.Err() == nil:
		t.refreshing = true
		s.wg.Go(func() { s.refresh(tableID, t) })
	}
	t.mu.Unlock()
	return uint64(t.rows.Load()), uint64(t.rowBytes.Load()), err
}

func (s *statistics) refresh(tableID int64, t *tableStats) {
	err := s.estimate(s.ctx, tableID, t)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refreshing = false
	// After an error the old estimate serves for another while.
	if err == nil || s.ctx.Err() == nil {
		t.made = time.Now()
	}
}

func (s *statistics) estimate(ctx context.Context, tableID int64, t *tableStats) error {
	records := table.RecordRange(tableID)
	rows, bytes, complete, err := s.sample(ctx, records)
	if err != nil {
		return err
	}
	width := max(1, bytes/max(1, rows))
	t.rowBytes.Store(width)
	if complete {
		t.rows.Store(rows)
		return nil
	}
	pieces, err := s.store.Ranges(ctx, records)
	if err != nil {
		return err
	}
	var stored int64
	for _, p := range pieces {
		stored += int64(p.Bytes)
	}
	estimate := max(rows, stored/width)
	if stored < statsBlindBytes {
		// What is known of rows added since may be all in memory.
		estimate = max(estimate, t.rows.Load())
	}
	t.rows.Store(estimate)
	return nil
}

// sample reads the first rows of a table. complete says that there are no more.
func (s *statistics) sample(ctx context.Context, records kv.KeyRange) (rows, bytes int64, complete bool, err error) {
	ts, err := s.store.CurrentTS(ctx)
	if err != nil {
		return 0, 0, false, err
	}
	snap, err := s.store.Snapshot(ctx, ts)
	if err != nil {
		return 0, 0, false, err
	}
	defer func() { err = firstError(err, snap.Close()) }()
	it, err := snap.Iter(records)
	if err != nil {
		return 0, 0, false, err
	}
	defer func() { err = firstError(err, it.Close()) }()
	for it.Valid() && rows < statsSampleRows {
		rows++
		bytes += int64(len(it.Key()) + len(it.Value()))
		if err := it.Next(); err != nil {
			return 0, 0, false, err
		}
	}
	return rows, bytes, !it.Valid(), nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// RowCount implements sql.StatisticsTable.
func (t *Table) RowCount(ctx *gms.Context) (uint64, bool, error) {
	rows, _, err := t.engine.stats.get(ctx, t.def.info.ID)
	return rows, false, err
}

// DataLength implements sql.StatisticsTable.
func (t *Table) DataLength(ctx *gms.Context) (uint64, error) {
	rows, rowBytes, err := t.engine.stats.get(ctx, t.def.info.ID)
	return rows * rowBytes, err
}
