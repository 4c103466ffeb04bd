package rows

import (
	"bytes"
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

// csvParser parses CSV.
type csvParser struct {
	parser *mydump.CSVParser
	stream *stream
	last   mydump.Row
	// row reports that last is to be given back to the parser.
	row bool
	// reopen opens the chunk once more, at an offset.
	reopen     func(from int64) (*stream, error)
	terminator []byte
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
	reopen := func(from int64) (*stream, error) { return s.openStream(ctx, file, from, end) }
	return &csvParser{parser: csv, stream: st, reopen: reopen, terminator: []byte(s.c.LinesTerminatedBy)}, nil
}

// withoutLog keeps mydump from logging the text of rows.
func withoutLog(ctx context.Context) context.Context {
	return litlog.NewContext(ctx, litlog.Logger{Logger: zap.NewNop()})
}

func (p *csvParser) next() ([]types.Datum, error) {
	if p.row {
		p.parser.RecycleRow(p.last)
		p.row = false
	}
	start := p.position()
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
	if len(p.last.Row) == 1 && p.last.Length == 0 && p.stream.done && p.position() == p.stream.at {
		if blank, err := p.blankEnd(start); blank || err != nil {
			if err == nil {
				err = io.EOF
			}
			return nil, err
		}
	}
	return p.last.Row, nil
}

// blankEnd reports whether the file has only white space from an offset on: mydump makes a row of one empty field
// of lines of spaces at the end.
func (p *csvParser) blankEnd(from int64) (blank bool, err error) {
	st, err := p.reopen(from)
	if err != nil {
		return false, err
	}
	defer func() { err = errs.Combine(err, st.Close()) }()
	rest, err := io.ReadAll(io.LimitReader(st, p.stream.at-from))
	if len(p.terminator) > 0 {
		rest = bytes.ReplaceAll(rest, p.terminator, nil)
	}
	return len(bytes.TrimSpace(rest)) == 0, err
}

func (p *csvParser) position() int64 {
	pos, _ := p.parser.Pos()
	return pos
}

func (*csvParser) columns() []string { return nil }

func (p *csvParser) read() int64 { return p.stream.read.n }

func (p *csvParser) Close() error { return p.parser.Close() }
