package rows

import (
	"errors"
	"io"

	"github.com/pingcap/tidb/br/pkg/storage"
	"github.com/pingcap/tidb/pkg/lightning/mydump"
)

// Packed says that a file of this name is compressed.
func Packed(name string) bool {
	return mydump.ParseCompressionOnFileExtension(name) != mydump.CompressionNone
}

// Unpack returns what is in a compressed file, as TiDB's LOAD DATA reads one of this name.
func Unpack(name string, file io.Reader) (io.ReadCloser, error) {
	kind, err := mydump.ToStorageCompressType(mydump.ParseCompressionOnFileExtension(name))
	if err != nil {
		return nil, err
	}
	return storage.InterceptDecompressReader(forward{file}, kind, storage.DecompressConfig{ZStdDecodeConcurrency: 1})
}

// forward is a file that is read from its beginning to its end.
type forward struct{ io.Reader }

// Seek implements io.Seeker.
func (forward) Seek(int64, int) (int64, error) {
	return 0, errors.ErrUnsupported
}

// Close implements io.Closer.
func (forward) Close() error { return nil }

// GetFileSize implements storage.ExternalFileReader.
func (forward) GetFileSize() (int64, error) {
	return 0, errors.ErrUnsupported
}
