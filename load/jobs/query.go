package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/executor/importer"

	"fastddl/load/rows"
)

// queryBuffer is how many rows of a query wait to be encoded.
const queryBuffer = 1024

// errLeft ends a query whose rows are not wanted any more.
var errLeft = errors.New("imports: the import takes no more rows")

// query are the rows of an import from a query or of LOAD DATA: the session sends them while it waits.
type query struct {
	// rows is closed behind the last row, and stays open if the query fails; nil of LOAD DATA.
	rows chan importer.QueryRow
	// feed takes the rows of LOAD DATA, as controller describes them; nil of a query.
	feed       *rows.Feed
	controller *importer.LoadDataController
	// wanted is closed when the import takes rows, left when it takes none any more.
	wanted, left chan struct{}
}

// openQuery makes the task one of which the session sends the rows.
func (t *task) openQuery(req *Request) {
	t.query = &query{wanted: make(chan struct{}), left: make(chan struct{})}
	if req.Load != nil {
		t.query.feed, t.query.controller = req.Load.Feed, req.Load.Controller
	} else {
		t.query.rows = make(chan importer.QueryRow, queryBuffer)
	}
}

// sender returns the function that sends the rows of a request; nil if the import reads files.
func (t *task) sender(req *Request) func(ctx context.Context) error {
	switch {
	case req.Load != nil:
		return func(ctx context.Context) error { return req.Load.Send(ctx, req.Load.Feed) }
	case req.Query != nil:
		return func(ctx context.Context) error {
			err := req.Query(ctx, t.query.rows)
			if err == nil {
				close(t.query.rows)
			}
			return err
		}
	}
	return nil
}

// wantsRows returns the channel that is closed when the rows of a session are wanted; nil if they are not, or are sent.
func (t *task) wantsRows(send func(ctx context.Context) error) <-chan struct{} {
	if send == nil || t.query == nil {
		return nil
	}
	return t.query.wanted
}

// send has a session send its rows. If it fails, the import fails with its error.
func (t *task) send(ctx context.Context, send func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // the import may fail before all rows are sent
		select {
		case <-t.query.left:
			cancel(errLeft)
		case <-ctx.Done():
		}
	}()
	err := contained("a query of an import", func() error { return send(ctx) })
	if err == nil {
		return nil
	}
	if t.query.feed == nil {
		err = fmt.Errorf("the query of the import: %w", err)
	}
	t.stop(err)
	return err
}

// queryRows returns what has the rows that a session sends, and a function to be called when the import takes no more. They are read once.
func (t *task) queryRows() (from *query, done func(), err error) {
	if !t.record().FromQuery {
		return new(query), func() {}, nil
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
	return t.query, func() { close(t.query.left) }, nil
}
