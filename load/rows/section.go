package rows

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pingcap/tidb/br/pkg/storage"
	"github.com/pingcap/tidb/pkg/lightning/mydump"
	"github.com/xitongsys/parquet-go/source"
)

// section reads parts of a file in any order.
type section struct {
	storage.ExternalFileReader
	ctx  context.Context
	name string
	size int64
	at   int64 // of the reader below
	n    int64 // bytes read
}

func (s *Source) openSection(ctx context.Context, file *mydump.SourceFileMeta) (*section, error) {
	raw, err := s.store.Open(ctx, file.Path, nil)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file.Path, err)
	}
	size, err := raw.GetFileSize()
	if err == nil && size != file.FileSize {
		err = fmt.Errorf("%s has %d bytes, and had %d: %w", file.Path, size, file.FileSize, errChanged)
	}
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return &section{ExternalFileReader: raw, ctx: ctx, name: file.Path, size: size}, nil
}

// Read implements io.Reader.
func (s *section) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.ExternalFileReader.Read(p)
	s.at += int64(n)
	s.n += int64(n)
	return n, err
}

// Seek implements io.Seeker.
func (s *section) Seek(offset int64, whence int) (int64, error) {
	at, err := s.ExternalFileReader.Seek(offset, whence)
	if err == nil {
		s.at = at
	}
	return at, err
}

// readAt fills b from an offset on.
func (s *section) readAt(b []byte, offset int64) error {
	if s.at != offset {
		if _, err := s.Seek(offset, io.SeekStart); err != nil {
			return fmt.Errorf("read %s: seek to %d: %w", s.name, offset, err)
		}
	}
	if _, err := io.ReadFull(s, b); err != nil {
		return fmt.Errorf("read %s at %d: %w", s.name, offset, err)
	}
	return nil
}

// Write, Open and Create make section a source.ParquetFile, of which the footer's reader only reads.
func (s *section) Write([]byte) (int, error)                 { return 0, errors.ErrUnsupported }
func (s *section) Open(string) (source.ParquetFile, error)   { return nil, errors.ErrUnsupported }
func (s *section) Create(string) (source.ParquetFile, error) { return nil, errors.ErrUnsupported }
