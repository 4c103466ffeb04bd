package backfill

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"fastddl/backfill/encode"
	"fastddl/ingest"
	"fastddl/internal/background"
	"fastddl/internal/stage"
	"fastddl/kv"
)

// Floor is what building indexes costs at the least: reading the columns once
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

// MeasureFloor measures the floor of building the indexes of task, on an
// otherwise idle process, in which every CPU second counts as spent on it. The
// table must not be partitioned. All
// entries are held in memory. Files are written to a new folder in tempDir and
// removed.
func MeasureFloor(ctx context.Context, store kv.Store, tempDir string, task encode.Task) (f Floor, err error) {
	if err := task.Validate(); err != nil {
		return f, err
	}
	p, err := encode.NewProjection(&task)
	if err != nil {
		return f, err
	}
	if task.Table.GetPartitionInfo() != nil {
		return f, fmt.Errorf("%w: floor of a partitioned table", encode.ErrUnsupported)
	}
	f.Cores = background.Cores()
	request := p.Request(encode.RecordRange(task.Table.ID), task.TS, 0)
	start := stage.ProcessCPU()
	err = store.ScanColumns(ctx, request, func(b *kv.RowBatch) error {
		f.Rows += int64(b.NumRows())
		return nil
	})
	if err != nil {
		return f, fmt.Errorf("backfill: floor: scan: %w", err)
	}
	f.ScanCPUSeconds = (stage.ProcessCPU() - start).Seconds()

	dir, err := os.MkdirTemp(tempDir, "floor-")
	if err != nil {
		return f, fmt.Errorf("backfill: floor: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for k, idx := range task.Indexes {
		entries, err := sortedEntries(ctx, store, &task, p, request, k)
		if err != nil {
			return f, fmt.Errorf("backfill: floor: %w", err)
		}
		f.Entries += int64(entries.count())
		if err := f.write(ctx, store, kv.ImportOptions{Dir: dir, Version: task.TS, RangeReadsOnly: !idx.Unique}, entries); err != nil {
			return f, fmt.Errorf("backfill: floor: write: %w", err)
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

// entryList is a list of entries, back to back in one buffer.
type entryList struct {
	data []byte
	keys []int // end of each key
	ends []int // end of each value
}

func (l *entryList) count() int { return len(l.ends) }

func (l *entryList) at(i int) (key, value []byte) {
	start := 0
	if i > 0 {
		start = l.ends[i-1]
	}
	return l.data[start:l.keys[i]], l.data[l.keys[i]:l.ends[i]]
}

func (l *entryList) add(prefix, key, value []byte) {
	l.data = append(append(l.data, prefix...), key...)
	l.keys = append(l.keys, len(l.data))
	l.data = append(l.data, value...)
	l.ends = append(l.ends, len(l.data))
}

// sortedEntries returns all entries of the k-th index in key order.
func sortedEntries(ctx context.Context, store kv.Store, task *encode.Task, p *encode.Projection, req kv.ScanRequest, k int) (*entryList, error) {
	enc, err := encode.NewEncoders(p)
	if err != nil {
		return nil, err
	}
	var all entryList
	indexID := task.Indexes[k].ID
	prefix := encode.IndexPrefix(task.Table.ID, indexID)
	err = store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		if err := enc.Bind(b, task.Table.ID); err != nil {
			return err
		}
		return enc.Indexes[k].Encode(func(_ int, kv []byte, klen int) error {
			all.add(prefix, kv[:klen], kv[klen:])
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	// Most comparisons end at the heads, without reading keys from all over memory.
	type position struct {
		head uint64 // of the key, behind the prefix
		i    int32
	}
	order := make([]position, all.count())
	for i := range order {
		key, _ := all.at(i)
		var head [8]byte
		copy(head[:], key[len(prefix):])
		order[i] = position{head: binary.BigEndian.Uint64(head[:]), i: int32(i)}
	}
	slices.SortFunc(order, func(a, b position) int {
		if c := cmp.Compare(a.head, b.head); c != 0 {
			return c
		}
		x, _ := all.at(int(a.i))
		y, _ := all.at(int(b.i))
		return bytes.Compare(x, y)
	})
	sorted := &entryList{data: make([]byte, 0, len(all.data))}
	for n, p := range order {
		key, value := all.at(int(p.i))
		if n > 0 {
			if prev, other := sorted.at(n - 1); bytes.Equal(prev, key) {
				group := ingest.NewDuplicateGroup(indexID, key, other, value)
				return nil, &ingest.DuplicateError{Groups: []*ingest.DuplicateGroup{group}}
			}
		}
		sorted.add(nil, key, value)
	}
	return sorted, nil
}
