package floor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/flow"
	"fastddl/internal/stage"
	"fastddl/kv"
)

// Floor is what building indexes costs at least: reading the columns once
// and writing the entries once, on all cores, with nothing else to do.
type Floor struct {
	Rows    int64 `json:"rows"`
	Entries int64 `json:"entries"`
	// ScanCPUSeconds is the CPU time of one scan of the needed columns,
	// WriteCPUSeconds that of writing the sorted entries to final files.
	ScanCPUSeconds  float64 `json:"scan_cpu_seconds"`
	WriteCPUSeconds float64 `json:"write_cpu_seconds"`
	FileBytes       uint64  `json:"file_bytes"`
	Cores           int     `json:"cores"`
	// Seconds is their sum divided by the cores.
	Seconds float64 `json:"seconds"`
}

// Measure measures the floor of building the indexes of table, which are in
// the store. No other work may run in the process: every CPU second counts as
// spent on the floor. All entries of an index are held in memory. Files are
// written to a new folder in tempDir and removed.
func Measure(ctx context.Context, store kv.Store, tempDir string, table *model.TableInfo, indexes ...*model.IndexInfo) (f Floor, err error) {
	ts, err := store.CurrentTS(ctx)
	if err != nil {
		return f, fmt.Errorf("floor: %w", err)
	}
	request, err := scanOf(table, indexes, ts)
	if err != nil {
		return f, err
	}
	f.Cores = flow.Cores()
	start := stage.ProcessCPU()
	err = store.ScanColumns(ctx, request, func(b *kv.RowBatch) error {
		f.Rows += int64(b.NumRows())
		return nil
	})
	if err != nil {
		return f, fmt.Errorf("floor: scan: %w", err)
	}
	f.ScanCPUSeconds = (stage.ProcessCPU() - start).Seconds()

	dir, err := os.MkdirTemp(tempDir, "floor-")
	if err != nil {
		return f, fmt.Errorf("floor: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, idx := range indexes {
		entries, err := entriesOf(ctx, store, tablecodec.EncodeTableIndexPrefix(table.ID, idx.ID), ts)
		if err != nil {
			return f, fmt.Errorf("floor: %w", err)
		}
		f.Entries += int64(entries.count())
		if err := f.write(ctx, store, kv.ImportOptions{Dir: dir, Version: ts, RangeReadsOnly: !idx.Unique}, entries); err != nil {
			return f, fmt.Errorf("floor: write: %w", err)
		}
	}
	f.Seconds = (f.ScanCPUSeconds + f.WriteCPUSeconds) / float64(f.Cores)
	return f, nil
}

// write writes entries to one file and measures it.
func (f *Floor) write(ctx context.Context, store kv.Store, opts kv.ImportOptions, entries *entryList) (err error) {
	if entries.count() == 0 {
		return nil
	}
	runtime.GC() // of what building the list left, which is not part of the floor
	start := stage.ProcessCPU()
	w, err := store.NewImportWriter(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	for i := range entries.count() {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		key, value := entries.at(i)
		if err := w.Add(key, value); err != nil {
			return err
		}
	}
	unit, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	f.WriteCPUSeconds += (stage.ProcessCPU() - start).Seconds()
	f.FileBytes += unit.Size()
	return unit.Discard()
}
