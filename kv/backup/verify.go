package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"fastddl/internal/errs"
	"fastddl/internal/parallel"
	"fastddl/kv/pebblekv"
)

const (
	// verifiers is how many files are read at a time.
	verifiers = 2
	// maxFindings bounds the damaged files that are listed.
	maxFindings = 10
)

// Verify reads the whole backup in the folder dir, and changes nothing: each file has the size and the checksum that the metadata
// say, each block of each table its own, and the engine finds all that its manifest names. It fails with what is damaged, ten
// files at most. done receives the bytes that were read, as they are; nil drops them.
func Verify(ctx context.Context, dir string, done func(bytes int64)) (m *Metadata, err error) {
	defer errs.Contain(&err)
	if m, err = Read(dir); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, dataFolder)
	found := make([]error, len(m.Files))
	err = parallel.Do(ctx, len(m.Files), func() int { return verifiers }, func(ctx context.Context, i int) error {
		found[i] = verifyFile(ctx, data, m.Files[i], done)
		return ctx.Err()
	})
	if err != nil {
		return m, err
	}
	var damage []error
	for _, err := range found {
		if err != nil {
			damage = append(damage, err)
		}
	}
	if more := len(damage) - maxFindings; more > 0 {
		damage = append(damage[:maxFindings], fmt.Errorf("%d more files are damaged", more))
	}
	if len(damage) > 0 {
		return m, errors.Join(damage...)
	}
	return m, pebblekv.CheckCheckpoint(data, m.TS)
}

// verifyFile compares a file with what the metadata say of it, and with the checksums in it.
func verifyFile(ctx context.Context, data string, f File, done progress) error {
	path := filepath.Join(data, f.Name)
	info, err := os.Stat(path)
	if err != nil {
		return missing(err)
	}
	if info.Size() != f.Size {
		return otherSize(f, info.Size())
	}
	if f.CRC != nil {
		crc, size, err := sumFile(ctx, path, done)
		if err != nil {
			return err
		}
		if err := f.compare(crc, size); err != nil {
			return err
		}
	}
	if !pebblekv.IsTable(f.Name) {
		return nil
	}
	if err := pebblekv.CheckTable(ctx, path); err != nil {
		return err
	}
	if f.CRC == nil {
		progress(done).add(f.Size)
	}
	return nil
}
