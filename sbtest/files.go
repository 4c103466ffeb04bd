package sbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// fileBlocks is the number of blocks of one file, some 50 MB.
const fileBlocks = 25

// filePattern matches the files of WriteFiles.
const filePattern = Table + ".*.csv"

// WriteFiles writes the rows to files in the folder dir, for ImportSQL. It calls written, from several goroutines, with the number of rows of
// each block that it has written.
func (g Generator) WriteFiles(ctx context.Context, dir string, written func(rows int)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for first := 0; first < g.Blocks(); first += fileBlocks {
		group.Go(func() error {
			path := filepath.Join(dir, fmt.Sprintf("%s.%06d.csv", Table, first))
			return g.writeFile(ctx, path, first, min(first+fileBlocks, g.Blocks()), written)
		})
	}
	return group.Wait()
}

// writeFile writes the blocks first to last-1.
func (g Generator) writeFile(ctx context.Context, path string, first, last int, written func(rows int)) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for block := first; block < last; block++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.Copy(f, g.Reader(block, block+1)); err != nil {
			return err
		}
		written(g.BlockRows(block))
	}
	return nil
}

// ImportSQL is the statement that imports the files of WriteFiles in dir.
func ImportSQL(dir string) string {
	return fmt.Sprintf(`IMPORT INTO %s FROM '%s' WITH fields_terminated_by = '\t'`, Table, filepath.Join(dir, filePattern))
}
