package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/pingcap/tidb/br/pkg/storage"
	"github.com/pingcap/tidb/pkg/lightning/mydump"
)

// stream reads a file, uncompressed, from one offset to another, as a mydump.ReadSeekCloser. Other than TiDB's
// readers it tells the end of a file from a file that was cut off.
type stream struct {
	ctx  context.Context
	name string
	// raw is the file as it is stored, in the compressed case below text.
	raw  storage.ExternalFileReader
	text io.Reader
	// at is the offset of the next byte of text; end is where the stream ends, -1 for the end of the file.
	at, end int64
	// read counts stored bytes.
	read *countingReader
	size int64 // of the stored file
	// failed is the error of a read, other than the end of the file; done reports that end.
	failed error
	done   bool
}

// countingReader counts the bytes read from a file.
type countingReader struct {
	storage.ExternalFileReader
	n int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.ExternalFileReader.Read(p)
	r.n += int64(n)
	return n, err
}

// openStream opens a file at the offset start.
func (s *Source) openStream(ctx context.Context, file *mydump.SourceFileMeta, start, end int64) (_ *stream, err error) {
	raw, err := s.store.Open(ctx, file.Path, nil)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file.Path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, raw.Close())
		}
	}()
	size, err := raw.GetFileSize()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", file.Path, err)
	}
	if size != file.FileSize {
		return nil, fmt.Errorf("%s has %d bytes, and had %d: %w", file.Path, size, file.FileSize, errChanged)
	}
	st := &stream{ctx: ctx, name: file.Path, raw: raw, end: end, size: size}
	if file.Compression == mydump.CompressionNone {
		if start > 0 {
			if _, err := raw.Seek(start, io.SeekStart); err != nil {
				return nil, fmt.Errorf("%s: seek to %d: %w", file.Path, start, err)
			}
		}
		st.read = &countingReader{ExternalFileReader: raw}
		st.text, st.at = st.read, start
		return st, nil
	}
	compression, err := mydump.ToStorageCompressType(file.Compression)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Path, err)
	}
	st.read = &countingReader{ExternalFileReader: raw}
	// One thread: a decoder with more leaves goroutines behind, since the storage's reader does not close it.
	st.text, err = storage.InterceptDecompressReader(st.read, compression, storage.DecompressConfig{ZStdDecodeConcurrency: 1})
	if err != nil {
		return nil, st.wrap(err)
	}
	if start > 0 {
		if err := st.skip(start); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// skip reads on to the offset to.
func (s *stream) skip(to int64) error {
	n, err := io.CopyN(io.Discard, s.text, to-s.at)
	s.at += n
	if err != nil {
		return s.wrap(fmt.Errorf("the file ends at offset %d, before %d, where the import is to go on: %w", s.at, to, err))
	}
	return nil
}

func (s *stream) wrap(err error) error { return fmt.Errorf("read %s: %w", s.name, err) }

// Read implements io.Reader. It returns io.EOF only where the file, or the stream's part of it, really ends.
func (s *stream) Read(p []byte) (int, error) {
	if s.failed != nil {
		return 0, s.failed
	}
	if err := s.ctx.Err(); err != nil {
		return 0, s.fail(err)
	}
	if s.end >= 0 {
		if s.at >= s.end {
			s.done = true
			return 0, io.EOF
		}
		p = p[:min(int64(len(p)), s.end-s.at)]
	}
	n, err := s.text.Read(p)
	s.at += int64(n)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		if s.end >= 0 && s.at < s.end && s.end != math.MaxInt64 {
			return n, s.fail(fmt.Errorf("the file ends at offset %d, before %d: %w", s.at, s.end, errChanged))
		}
		s.done = true
		return n, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		// Not %w: mydump takes io.ErrUnexpectedEOF for the end of the file.
		return n, s.fail(fmt.Errorf("the compressed file is cut off after offset %d", s.at))
	}
	return n, s.fail(err)
}

func (s *stream) fail(err error) error {
	s.failed = s.wrap(err)
	return s.failed
}

// Seek implements io.Seeker for the two calls that mydump makes: where the reader stands, and, before the first
// read, the offset at which the stream has been opened.
func (s *stream) Seek(offset int64, whence int) (int64, error) {
	switch {
	case whence == io.SeekCurrent && offset == 0:
		return s.read.n, nil
	case whence == io.SeekStart && offset == s.at:
		return offset, nil
	}
	return 0, fmt.Errorf("read %s: seek to %d from %d is not supported", s.name, offset, s.at)
}

// Close implements io.Closer.
func (s *stream) Close() error { return s.raw.Close() }
