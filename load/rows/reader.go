package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/lightning/common"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/internal/errs"
)

// Reader reads and encodes the rows of one chunk. It must be used by one goroutine, and be closed.
type Reader struct {
	s      *Source
	chunk  Chunk
	ids    *IDs
	parser parser
	enc    *encoder
	// named are the names of the values for which enc.fields have been made.
	named []string
	// start is the offset before the last row, rest the one behind it.
	start, rest int64
	err         error // of the source; the reader cannot go on
	// counted is how far the lines of bad rows have been counted.
	counted lineCount
}

// NewReader returns a reader of c: one of Chunks, or what Reader.Rest returned. All readers of an import get the
// same ids.
func (s *Source) NewReader(ctx context.Context, c Chunk, ids *IDs) (_ *Reader, err error) {
	defer errs.Contain(&err)
	r := &Reader{s: s, chunk: c, ids: ids, start: c.Start, rest: c.Start}
	if s.feed != nil {
		r.parser = noRows{}
		return r, s.feed.open(c.Now, ids)
	}
	f := statementFields(s.c)
	if c.Done {
		r.parser = noRows{}
	} else if r.parser, f, err = s.openParser(ctx, c, f); err != nil {
		return nil, err
	}
	if s.c.Format == importer.DataFormatParquet {
		r.named = r.parser.columns() // the same for all rows, and known to f
	}
	if r.enc, err = s.newEncoder(f, c.Now, ids); err != nil {
		return nil, errs.Combine(err, r.parser.Close())
	}
	return r, nil
}

// openParser opens the parser of a chunk, which may know the fields better than the statement.
func (s *Source) openParser(ctx context.Context, c Chunk, f fields) (parser, fields, error) {
	if s.query != nil {
		return &queryParser{ctx: ctx, rows: s.query, at: c.Start}, f, nil
	}
	file, err := s.file(c)
	if err != nil {
		return nil, f, err
	}
	switch s.c.Format {
	case importer.DataFormatParquet:
	case importer.DataFormatSQL:
		p, err := s.openStatements(ctx, file, c)
		return p, f, err
	default:
		p, err := s.openCSV(ctx, file, c.Start, c.End, c.Start == 0)
		return p, f, err
	}
	p, err := s.openParquet(ctx, file, c)
	if err != nil {
		return nil, f, err
	}
	if f, err = namedFields(s.c, p.columns(), true); err != nil {
		return nil, f, errs.Combine(fmt.Errorf("file %s: %w", c.File, err), p.Close())
	}
	return p, f, nil
}

// Next returns the pairs of the next row: its record and its index entries, without a check of duplicates. They are
// valid until the next call. At the end of the chunk it returns io.EOF. After a *RowError that is not final the
// reader goes on with the row after it.
func (r *Reader) Next(ctx context.Context) (pairs []common.KvPair, err error) {
	if r.err != nil {
		return nil, r.err
	}
	defer func() {
		var row *RowError
		if err != nil && !(errors.As(err, &row) && !row.Final) {
			r.err = err
		}
	}()
	defer errs.Contain(&err)
	r.start = r.rest
	if r.s.feed != nil {
		if pairs, err = r.s.feed.next(ctx); err == nil {
			r.rest++
		}
		r.chunk.Done = err == io.EOF
		return pairs, err
	}
	values, err := r.parser.next()
	r.rest = r.parser.position()
	if err == io.EOF {
		r.chunk.Done = true
		r.ids.settle(&r.enc.auto.blocks, true)
		return nil, io.EOF
	}
	if err == nil {
		err = r.name()
	}
	if err == nil {
		if pairs, err = r.enc.encode(values); err == nil {
			return pairs, nil
		}
		return nil, r.rowError(ctx, err, false)
	}
	var syntax *columnError
	if errors.As(err, &syntax) {
		return nil, r.rowError(ctx, err, true)
	}
	return nil, err
}

// name takes the fields of the row's names, if they differ from those of the row before.
func (r *Reader) name() error {
	names := r.parser.columns()
	if slices.Equal(names, r.named) {
		return nil
	}
	f, err := namedFields(r.s.c, names, false)
	if err != nil {
		return &columnError{err: err}
	}
	r.enc.fields, r.named = f, slices.Clone(names)
	return nil
}

func (r *Reader) rowError(ctx context.Context, err error, final bool) error {
	place, findErr := r.s.locate(ctx, r.Place(), &r.counted)
	if findErr != nil {
		// The row's own error is the cause; its line stays unknown.
		place = r.Place()
	}
	row := r.s.rowError(err, place)
	row.Final = final
	return row
}

// Rest returns what is left of the chunk behind the rows that Next has returned, errors of rows included. The
// reader's IDs count in IDs.State from then on.
func (r *Reader) Rest() Chunk {
	if r.enc != nil {
		r.ids.settle(&r.enc.auto.blocks, false)
	}
	c := r.chunk
	if c.Done {
		c.Start = max(c.End, c.Start)
		return c
	}
	c.Start, c.Columns = r.rest, slices.Clone(r.parser.columns())
	if r.s.c.Format == importer.DataFormatParquet {
		c.Columns = nil
	}
	return c
}

// Place returns where the row that Next returned last stands. Its Line is 0 in text; Source.Lines finds it.
func (r *Reader) Place() Place {
	p := Place{File: r.chunk.File, Offset: r.start}
	if r.s.streamed() {
		return Place{Line: r.rest, Offset: r.rest - 1} // the readers of a query share its rows
	}
	if r.s.byRow() {
		p.Line = r.start + 1
	}
	return p
}

// streamed reports that the rows do not come from files, and cannot be read again.
func (s *Source) streamed() bool { return s.query != nil || s.feed != nil }

// byRow reports that offsets count rows.
func (s *Source) byRow() bool { return s.streamed() || s.c.Format == importer.DataFormatParquet }

// Read returns how many bytes of the stored file the reader has read so far.
func (r *Reader) Read() int64 { return r.parser.read() }

// Close releases the reader.
func (r *Reader) Close() error {
	if r.enc != nil {
		r.ids.settle(&r.enc.auto.blocks, true)
		r.enc.close()
	}
	if err := r.parser.Close(); err != nil {
		return fmt.Errorf("load: close %s: %w", r.chunk.File, err)
	}
	return nil
}

// noRows is the parser of a chunk that is done.
type noRows struct{}

func (noRows) next() ([]types.Datum, error) { return nil, io.EOF }
func (noRows) position() int64              { return 0 }
func (noRows) columns() []string            { return nil }
func (noRows) read() int64                  { return 0 }
func (noRows) Close() error                 { return nil }
