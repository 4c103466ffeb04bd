package rows

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/pingcap/tidb/br/pkg/storage"
	"github.com/pingcap/tidb/pkg/executor/importer"
	lkv "github.com/pingcap/tidb/pkg/lightning/backend/kv"
	"github.com/pingcap/tidb/pkg/lightning/mydump"
	"github.com/pingcap/tidb/pkg/meta/model"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
)

// Source is the files, or the query, of one import. Its methods may be called by several goroutines.
type Source struct {
	c     *importer.LoadDataController
	table *model.TableInfo
	// target encodes rows; readers share it.
	target table.Table
	now    int64
	// chunkBytes is the size to which files are cut.
	chunkBytes int64

	store  storage.ExternalStorage
	files  map[string]*mydump.SourceFileMeta
	chunks []Chunk
	bytes  int64

	query <-chan importer.QueryRow
	feed  *Feed
	// expressions guards those of the statement and of generated columns, which TiDB may rewrite in place.
	expressions sync.Mutex
}

// Open prepares reading the files of c, whose InitDataFiles has been called, into keys of table: the
// definition with the IDs that the rows go under. It reads plain CSV files once, to find where they may be cut.
func Open(ctx context.Context, c *importer.LoadDataController, table *model.TableInfo) (*Source, error) {
	s, err := newSource(c, table)
	if err != nil {
		return nil, err
	}
	return s, s.open(ctx)
}

func (s *Source) open(ctx context.Context) (err error) {
	if s.store, err = openStore(ctx, s.c.Path); err != nil {
		return err
	}
	s.files = make(map[string]*mydump.SourceFileMeta)
	for _, info := range s.c.GetLoadDataReaderInfos() {
		file := info.Remote
		s.files[file.Path] = file
		s.bytes += file.FileSize
		chunks, err := s.divide(ctx, file)
		if err != nil {
			return err
		}
		s.chunks = append(s.chunks, chunks...)
	}
	return nil
}

func newSource(c *importer.LoadDataController, info *model.TableInfo) (*Source, error) {
	target, err := tables.TableFromMeta(lkv.NewPanickingAllocators(info.SepAutoInc()), info)
	if err != nil {
		return nil, fmt.Errorf("load: table %s: %w", info.Name.O, err)
	}
	return &Source{c: c, table: info, target: target, now: time.Now().Unix(), chunkBytes: chunkBytes}, nil
}

// openStore opens the storage of the statement's path, as LoadDataController.InitDataStore does, which keeps
// its own to itself.
func openStore(ctx context.Context, path string) (storage.ExternalStorage, error) {
	u, err := storage.ParseRawURL(path)
	if err != nil {
		return nil, exeerrors.ErrLoadDataInvalidURI.FastGenByArgs(plannercore.ImportIntoDataSource, err.Error())
	}
	if storage.IsLocal(u) {
		u.Path = filepath.Dir(path)
	} else {
		u.Path = ""
	}
	backend, err := storage.ParseBackendFromURL(u, nil)
	if err != nil {
		return nil, exeerrors.ErrLoadDataInvalidURI.FastGenByArgs(plannercore.ImportIntoDataSource, importer.GetMsgFromBRError(err))
	}
	store, err := storage.NewWithDefaultOpt(ctx, backend)
	if err != nil {
		return nil, exeerrors.ErrLoadDataCantAccess.FastGenByArgs(plannercore.ImportIntoDataSource, importer.GetMsgFromBRError(err))
	}
	return store, nil
}

// divide returns the chunks of a file.
func (s *Source) divide(ctx context.Context, file *mydump.SourceFileMeta) ([]Chunk, error) {
	whole := Chunk{File: file.Path, Size: file.FileSize, End: -1, Now: s.now}
	switch {
	case s.c.Format == importer.DataFormatParquet:
		return s.divideParquet(ctx, file)
	case file.Compression != mydump.CompressionNone:
		return []Chunk{whole}, nil
	}
	whole.End = file.FileSize
	if s.c.Format == importer.DataFormatSQL {
		return []Chunk{whole}, nil
	}
	cuts, err := s.cut(ctx, file)
	if err != nil {
		return nil, err
	}
	var chunks []Chunk
	for _, end := range append(cuts, file.FileSize) {
		c := whole
		c.End = end
		chunks = append(chunks, c)
		whole.Start = end
	}
	return chunks, nil
}

// Chunks returns the parts of the source in the order of files and offsets.
func (s *Source) Chunks() []Chunk { return s.chunks }

// Bytes returns the size of the source's files as they are stored.
func (s *Source) Bytes() int64 { return s.bytes }

// file returns the file of a chunk, which must not have changed since the chunk was made.
func (s *Source) file(c Chunk) (*mydump.SourceFileMeta, error) {
	file := s.files[c.File]
	if file == nil {
		return nil, fmt.Errorf("load: file %s: not among the files of the import any more", c.File)
	}
	if file.FileSize != c.Size {
		return nil, fmt.Errorf("load: %s has %d bytes, and had %d: %w", c.File, file.FileSize, c.Size, errChanged)
	}
	return file, nil
}
