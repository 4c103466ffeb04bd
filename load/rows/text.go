package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/executor/importer"
	litlog "github.com/pingcap/tidb/pkg/lightning/log"
	"github.com/pingcap/tidb/pkg/lightning/mydump"
	"github.com/pingcap/tidb/pkg/types"
	"go.uber.org/zap"

	"fastddl/internal/errs"
)

// parser reads the values of rows.
type parser interface {
	// next returns the values of the next row, valid until the next call; io.EOF at the end.
	next() ([]types.Datum, error)
	// position is the offset behind the last row, in the unit of Chunk.Start.
	position() int64
	// columns are the names of the values of the last row, lower case; nil if the source does not name them.
	columns() []string
	// read is how many bytes of the file have been read so far.
	read() int64
	Close() error
}

// textParser parses CSV and SQL.
type textParser struct {
	parser mydump.Parser
	stream *stream
	last   mydump.Row
	// row reports that last is to be given back to the parser.
	row bool
	// named reports that rows come with the names of their columns.
	named bool
}

// openText opens a parser of a chunk of CSV or SQL.
func (s *Source) openText(ctx context.Context, file *mydump.SourceFileMeta, c Chunk) (*textParser, error) {
	p := &textParser{named: s.c.Format == importer.DataFormatSQL}
	if !p.named {
		csv, err := s.openCSV(ctx, file, c.Start, c.End, c.Start == 0)
		if err != nil {
			return nil, err
		}
		p.parser, p.stream = csv.Parser, csv.stream
		return p, nil
	}
	st, err := s.openStream(ctx, file, c.Start, c.End)
	if err != nil {
		return nil, err
	}
	chunks := mydump.NewChunkParser(withoutLog(ctx), s.c.SQLMode, st, importer.LoadDataReadBlockSize, nil)
	if c.Start > 0 {
		if err := chunks.SetPos(c.Start, 0); err != nil {
			return nil, errs.Combine(err, st.Close())
		}
	}
	chunks.SetColumns(c.Columns)
	p.parser, p.stream = chunks, st
	return p, nil
}

// csvParser is a parser of CSV with the file below it.
type csvParser struct {
	mydump.Parser
	stream *stream
}

// openCSV opens a parser of CSV at an offset; skip passes the rows that the statement skips.
// It follows LoadDataController.GetParser.
func (s *Source) openCSV(ctx context.Context, file *mydump.SourceFileMeta, start, end int64, skip bool) (_ *csvParser, err error) {
	st, err := s.openStream(ctx, file, start, end)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errs.Combine(err, st.Close())
		}
	}()
	var charset *mydump.CharsetConvertor
	if s.c.Charset != nil {
		if charset, err = mydump.NewCharsetConvertor(*s.c.Charset, string(utf8.RuneError)); err != nil {
			return nil, err
		}
	}
	csv, err := mydump.NewCSVParser(withoutLog(ctx), s.c.GenerateCSVConfig(), st, importer.LoadDataReadBlockSize, nil, false, charset)
	if err != nil {
		return nil, err
	}
	if start > 0 {
		if err := csv.SetPos(start, 0); err != nil {
			return nil, err
		}
	}
	if skip {
		if err := s.c.HandleSkipNRows(csv); err != nil {
			return nil, fmt.Errorf("%s: skip rows: %w", file.Path, err)
		}
	}
	return &csvParser{csv, st}, nil
}

// withoutLog keeps mydump from logging the text of rows.
func withoutLog(ctx context.Context) context.Context {
	return litlog.NewContext(ctx, litlog.Logger{Logger: zap.NewNop()})
}

func (p *textParser) next() ([]types.Datum, error) {
	if p.row {
		p.parser.RecycleRow(p.last)
		p.row = false
	}
	if err := p.parser.ReadRow(); err != nil {
		if p.stream.failed != nil {
			return nil, p.stream.failed
		}
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, &columnError{err: err}
	}
	p.last, p.row = p.parser.LastRow(), true
	return p.last.Row, nil
}

func (p *textParser) position() int64 {
	pos, _ := p.parser.Pos()
	return pos
}

func (p *textParser) columns() []string {
	if !p.named {
		return nil
	}
	return p.parser.Columns()
}

func (p *textParser) read() int64 { return p.stream.read.n }

func (p *textParser) Close() error { return p.parser.Close() }
