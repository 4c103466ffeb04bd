package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/lightning/mydump"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
)

// batchBytes is the length of an INSERT that is made of rows of CSV or Parquet.
const batchBytes = 512 << 10

// rowParser is TiDB's parser of CSV or Parquet.
type rowParser interface {
	ReadRow() error
	LastRow() mydump.Row
	RecycleRow(mydump.Row)
	Columns() []string
}

// insertRows makes INSERT statements of the rows of a CSV or Parquet file.
func insertRows(ctx context.Context, in *inserter, file *File, f fields) (err error) {
	r, err := file.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	t := in.table
	var p rowParser
	columns := f.columns
	if file.Format == Parquet {
		parquet, err := mydump.NewParquetParser(ctx, r.store, r.ReadSeekCloser, file.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
		p, columns = parquet, parquet.Columns()
	} else {
		csv, err := t.CSV.parser(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
		if f.skipHeader {
			if err := csv.ReadRow(); err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("%s, line 1: %w", file.Path, err)
			}
		}
		p = csv
	}
	b := newBatch(t, columns, file.Bytes)
	for row := 1; ; row++ {
		err := p.ReadRow()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s, row %d: %w", file.Path, row, err)
		}
		last := p.LastRow()
		if err := b.add(last.Row, row); err != nil {
			return fmt.Errorf("%s, row %d: %w", file.Path, row, err)
		}
		p.RecycleRow(last)
		if b.text.Len() >= batchBytes {
			if err := b.send(in, file); err != nil {
				return err
			}
		}
	}
	b.last = true
	return b.send(in, file)
}

// batch is an INSERT in the making.
type batch struct {
	table    *Table
	columns  []string
	settings settings
	// head is its text before the first row.
	head  string
	text  bytes.Buffer
	first int // the number of its first row
	// share is the rest of the file's bytes for the progress; last says that the rest is done.
	share int64
	last  bool
}

func newBatch(t *Table, columns []string, share int64) *batch {
	b := &batch{table: t, settings: t.settings(), columns: columns, share: share, head: "INSERT INTO " + t.Name.sql()}
	if len(columns) > 0 {
		quoted := make([]string, len(columns))
		for i, c := range columns {
			quoted[i] = quoteName(c)
		}
		b.head += " (" + strings.Join(quoted, ", ") + ")"
	}
	b.head += " VALUES ("
	return b
}

func (b *batch) add(row []types.Datum, number int) error {
	if len(b.columns) > 0 && len(row) != len(b.columns) {
		return fmt.Errorf("%d fields for %d columns", len(row), len(b.columns))
	}
	if b.text.Len() == 0 {
		b.first = number
		b.text.WriteString(b.head)
	} else {
		b.text.WriteString(",(")
	}
	for i := range row {
		if i > 0 {
			b.text.WriteByte(',')
		}
		literal, err := literalOf(&row[i], b.settings)
		if err != nil {
			return err
		}
		if len(b.columns) > 0 && !row[i].IsNull() {
			if function := b.table.CSV.Decode[b.columns[i]]; function != "" {
				literal = function + "(" + literal + ")"
			}
		}
		b.text.WriteString(literal)
	}
	b.text.WriteByte(')')
	return nil
}

func (b *batch) send(in *inserter, file *File) error {
	size := min(int64(b.text.Len()), b.share)
	if b.last {
		size = b.share
	}
	b.share -= size
	if b.text.Len() == 0 {
		in.progress(size)
		return nil
	}
	s := insertion{text: b.text.String(), bytes: size, source: fmt.Sprintf("%s, from row %d on", file.Path, b.first)}
	b.text.Reset()
	return in.insert(s)
}

// literalOf returns a value as SQL for a session with the given settings. Text that is not UTF-8, or that such a session has no
// literal for, is written in hexadecimal digits, as bytes.
func literalOf(d *types.Datum, s settings) (string, error) {
	switch d.Kind() {
	case types.KindNull:
		return "NULL", nil
	case types.KindInt64:
		return strconv.FormatInt(d.GetInt64(), 10), nil
	case types.KindUint64:
		return strconv.FormatUint(d.GetUint64(), 10), nil
	case types.KindFloat32:
		return strconv.FormatFloat(float64(d.GetFloat32()), 'g', -1, 32), nil
	case types.KindFloat64:
		return strconv.FormatFloat(d.GetFloat64(), 'g', -1, 64), nil
	case types.KindBinaryLiteral, types.KindMysqlBit:
		return fmt.Sprintf("x'%x'", d.GetBytes()), nil
	case types.KindString, types.KindBytes:
		text := d.GetString()
		if !utf8.ValidString(text) || s.literalBackslash && strings.Contains(text, "\x00") {
			return fmt.Sprintf("x'%x'", text), nil
		}
		return s.quoteFor(text), nil
	}
	text, err := d.ToString()
	if err != nil {
		return "", err
	}
	return s.quoteFor(strings.ToValidUTF8(text, "")), nil
}

// rewritten reports whether the rows of a table are loaded without the values that the dump has for generated columns.
func (t *Table) rewritten() bool { return t.generated && t.unlisted }

// withoutGenerated returns an INSERT without column list as one that names the columns that are not generated.
func withoutGenerated(ctx context.Context, t *Table, columns []column, text string) (string, error) {
	var mode mysql.SQLMode
	literal := t.settings().literalBackslash
	if literal {
		mode = mysql.ModeNoBackslashEscapes
	}
	p := mydump.NewChunkParser(ctx, mode, mydump.NewStringReader(withoutIntroducers(text, literal)), csvBlockBytes, nil)
	var names []string
	for _, c := range columns {
		if !c.generated {
			names = append(names, c.name)
		}
	}
	b := newBatch(t, names, 0)
	for row := 1; ; row++ {
		err := p.ReadRow()
		if errors.Is(err, io.EOF) {
			return b.text.String(), nil
		}
		if err != nil {
			return "", fmt.Errorf("row %d: %w", row, err)
		}
		if len(p.Columns()) > 0 {
			return text, nil // another statement of the table has no list
		}
		last := p.LastRow()
		if len(last.Row) != len(columns) {
			return "", fmt.Errorf("row %d has %d values for %d columns", row, len(last.Row), len(columns))
		}
		kept := make([]types.Datum, 0, len(names))
		for i, c := range columns {
			if !c.generated {
				kept = append(kept, last.Row[i])
			}
		}
		if err := b.add(kept, row); err != nil {
			return "", fmt.Errorf("row %d: %w", row, err)
		}
		p.RecycleRow(last)
	}
}

// introducer marks strings of bytes in the INSERT statements of MySQL's mysqldump. TiDB's parser of files (ChunkParser.ReadRow in
// pkg/lightning/mydump/parser.go) takes it for a value of its own.
const introducer = "_binary '"

// withoutIntroducers returns an INSERT without introducers. Those within strings stay.
func withoutIntroducers(text string, literal bool) string {
	if !strings.Contains(text, introducer) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	s := newScanner(strings.NewReader(text)) // no statement of it ends, so all of it stays in its buffer
	s.literal = literal
	from := 0
	for {
		c, ok := s.peek(0)
		switch {
		case !ok:
			b.WriteString(text[from:])
			return b.String()
		case c == '_' && s.hasPrefix([]byte(introducer)):
			b.WriteString(text[from:s.pos])
			from = s.pos + len(introducer) - 1
			s.advance(len(introducer) - 1)
		case c == '\'' || c == '"' || c == '`':
			if !s.quoted(c) {
				b.WriteString(text[from:])
				return b.String()
			}
		default:
			s.advance(1)
		}
	}
}
