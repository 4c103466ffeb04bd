package pebblekv

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"fastddl/kv"
)

// ingestions compares what the engine reports of each import with the units that it was given.
type ingestions struct {
	// turn is held by the import that the engine works on: a report does not name its import. The engine takes one at a
	// time in any case.
	turn chan struct{}

	mu      sync.Mutex
	reports []pebble.TableIngestInfo // since the turn began
}

func newIngestions() *ingestions { return &ingestions{turn: make(chan struct{}, 1)} }

// report is called by the engine at the end of each import, on the goroutine that has asked for it.
func (i *ingestions) report(info pebble.TableIngestInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reports = append(i.reports, info)
}

// take returns the reports since the last call.
func (i *ingestions) take() []pebble.TableIngestInfo {
	i.mu.Lock()
	defer i.mu.Unlock()
	reports := i.reports
	i.reports = nil
	return reports
}

// ingest links the files of units, which are in key order, into the engine. It fails with a *kv.DamagedUnitError if the
// engine has taken in something else.
func (s *Store) ingest(ctx context.Context, units []*importUnit) error {
	select {
	case s.ingestions.turn <- struct{}{}:
		defer func() { <-s.ingestions.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	paths := make([]string, len(units))
	for i, u := range units {
		paths[i] = u.path
	}
	s.ingestions.take() // of an import that has failed
	if err := s.db.Ingest(ctx, paths); err != nil {
		return fmt.Errorf("pebblekv: importing %d units: %w", len(units), err)
	}
	return compareIngestion(units, s.ingestions.take())
}

// compareIngestion compares the reports of an import with its units: as many tables, each of a unit's size and span.
func compareIngestion(units []*importUnit, reports []pebble.TableIngestInfo) error {
	wrong := func(u *importUnit, format string, args ...any) error {
		return &kv.DamagedUnitError{File: u.path, Imported: true, Err: fmt.Errorf(format, args...)}
	}
	if len(reports) != 1 {
		return wrong(units[0], "the engine reports %d imports", len(reports))
	}
	if err := reports[0].Err; err != nil {
		return wrong(units[0], "the engine reports %w", err)
	}
	tables := importedTables(reports[0])
	for i, u := range units {
		if i == len(tables) {
			return wrong(u, "the engine reports %d tables of %d", len(tables), len(units))
		}
		t := tables[i]
		first, last := u.engineSpan()
		if t.Size != u.size || !bytes.Equal(t.Smallest.UserKey, first) || !bytes.Equal(t.Largest.UserKey, last) {
			return wrong(u, "the engine reports a table of %d bytes from %x to %x, not %d bytes from %x to %x",
				t.Size, t.Smallest.UserKey, t.Largest.UserKey, u.size, first, last)
		}
	}
	if len(tables) > len(units) {
		return wrong(units[0], "the engine reports %d tables of %d", len(tables), len(units))
	}
	return nil
}

// importedTables returns the tables of an import in key order, in which the engine numbers them. A report also has the
// halves of tables that were cut in two for the import: what they hold is older.
func importedTables(info pebble.TableIngestInfo) []pebble.TableInfo {
	var tables []pebble.TableInfo
	for _, t := range info.Tables {
		if t.LargestSeqNum >= info.GlobalSeqNum {
			tables = append(tables, t.TableInfo)
		}
	}
	return tables
}
