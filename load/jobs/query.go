package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/executor/importer"
)

// queryBuffer is how many rows of a query wait to be encoded.
const queryBuffer = 1024

// errLeft ends a query whose rows are not wanted any more.
var errLeft = errors.New("imports: the import takes no more rows")

// query are the rows of an import from a query: the session sends them while it waits.
type query struct {
	// rows is closed behind the last row, and stays open if the query fails.
	rows chan importer.QueryRow
	// wanted is closed when the import takes rows, left when it takes none any more.
	wanted, left chan struct{}
}

func (t *task) openQuery() {
	t.query = &query{rows: make(chan importer.QueryRow, queryBuffer), wanted: make(chan struct{}), left: make(chan struct{})}
}

// wantsRows returns the channel that is closed when the rows of a query are wanted; nil if they are not, or are sent.
func (t *task) wantsRows(query func(ctx context.Context, rows chan<- importer.QueryRow) error) <-chan struct{} {
	if query == nil || t.query == nil {
		return nil
	}
	return t.query.wanted
}

// send has a query send its rows. If it fails, the import fails with its error.
func (t *task) send(ctx context.Context, query func(ctx context.Context, rows chan<- importer.QueryRow) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // the import may fail before all rows are sent
		select {
		case <-t.query.left:
			cancel(errLeft)
		case <-ctx.Done():
		}
	}()
	err := contained("a query of an import", func() error { return query(ctx, t.query.rows) })
	if err == nil {
		close(t.query.rows)
		return nil
	}
	t.stop(fmt.Errorf("the query of the import: %w", err))
	return err
}

// queryRows returns the rows of an import from a query, and a function to be called when it takes no more; nil of files. A query is read
// once.
func (t *task) queryRows() (rows <-chan importer.QueryRow, done func(), err error) {
	if !t.record().FromQuery {
		return nil, func() {}, nil
	}
	if t.query == nil {
		return nil, nil, errLostQuery
	}
	select {
	case <-t.query.wanted:
		return nil, nil, errLostQuery
	default:
	}
	close(t.query.wanted)
	return t.query.rows, func() { close(t.query.left) }, nil
}
