package rows

import (
	"context"
	"io"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
)

// FromQuery returns a source of the rows that ch brings, until it is closed: those of IMPORT INTO ... FROM SELECT.
// It has one chunk for each of the readers, which divide the rows among themselves. A rest of such a chunk says
// only how many rows were read: a query cannot be read again.
func FromQuery(c *importer.LoadDataController, table *model.TableInfo, ch <-chan importer.QueryRow, readers int) (*Source, error) {
	s, err := newSource(c, table)
	if err != nil {
		return nil, err
	}
	s.query = ch
	for range max(readers, 1) {
		s.chunks = append(s.chunks, Chunk{End: -1, Now: s.now})
	}
	return s, nil
}

// queryParser takes rows from a channel.
type queryParser struct {
	ctx  context.Context
	rows <-chan importer.QueryRow
	at   int64
}

func (p *queryParser) next() ([]types.Datum, error) {
	select {
	case row, ok := <-p.rows:
		if !ok {
			return nil, io.EOF
		}
		p.at = row.ID
		return row.Data, nil
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

func (p *queryParser) position() int64 { return p.at }
func (*queryParser) columns() []string { return nil }
func (*queryParser) read() int64       { return 0 }
func (*queryParser) Close() error      { return nil }
