package load

import (
	"context"

	"github.com/pingcap/tidb/pkg/lightning/common"

	"fastddl/load/rows"
)

// source is what a load needs of a *rows.Source.
type source interface {
	Chunks() []rows.Chunk
	Bytes() int64
	open(ctx context.Context, c rows.Chunk, ids *rows.IDs) (reader, error)
	Places(ctx context.Context, keys [][]byte, limit int) (map[string][]rows.Place, error)
}

// reader is a *rows.Reader.
type reader interface {
	Next(ctx context.Context) ([]common.KvPair, error)
	Rest() rows.Chunk
	Place() rows.Place
	Read() int64
	Close() error
}

// files is the source of a load.
type files struct{ *rows.Source }

func (f files) open(ctx context.Context, c rows.Chunk, ids *rows.IDs) (reader, error) {
	return f.NewReader(ctx, c, ids)
}
