package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pingcap/tidb/pkg/lightning/mydump"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/xitongsys/parquet-go/parquet"
	preader "github.com/xitongsys/parquet-go/reader"
	"github.com/xitongsys/parquet-go/schema"

	"fastddl/internal/errs"
)

// parquetFile is what the footer of a file says.
type parquetFile struct {
	meta    *parquet.FileMetaData
	schema  *schema.SchemaHandler
	names   []string // lower case
	columns []*parquet.SchemaElement
}

// openFooter reads the footer of a Parquet file.
func (s *Source) openFooter(ctx context.Context, file *mydump.SourceFileMeta) (f *parquetFile, err error) {
	defer errs.Contain(&err)
	if file.Compression != mydump.CompressionNone {
		return nil, fmt.Errorf("file %s: a Parquet file cannot be compressed as a whole", file.Path)
	}
	section, err := s.openSection(ctx, file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errs.Combine(err, section.Close()) }()
	const magic = "PAR1"
	mark := make([]byte, len(magic))
	for _, at := range []int64{0, file.FileSize - int64(len(magic))} {
		if at < 0 {
			return nil, fmt.Errorf("file %s is not a Parquet file: it has only %d bytes", file.Path, file.FileSize)
		}
		if _, err := section.Seek(at, io.SeekStart); err != nil {
			return nil, fmt.Errorf("file %s: %w", file.Path, err)
		}
		if _, err := io.ReadFull(section, mark); err != nil {
			return nil, fmt.Errorf("file %s: %w", file.Path, err)
		}
		if string(mark) != magic {
			return nil, fmt.Errorf("file %s is not a Parquet file, or is cut off: no %s at offset %d", file.Path, magic, at)
		}
	}
	reader := preader.ParquetReader{NP: 1, PFile: section}
	if err := reader.ReadFooter(); err != nil {
		return nil, fmt.Errorf("file %s: read the footer: %w", file.Path, err)
	}
	reader.SchemaHandler = schema.NewSchemaHandlerFromSchemaList(reader.Footer.Schema)
	f = &parquetFile{meta: reader.Footer, schema: reader.SchemaHandler}
	for i, element := range f.schema.SchemaElements {
		if i == 0 {
			continue // the root
		}
		name := f.schema.GetExName(i)
		if element.GetNumChildren() > 0 || element.GetRepetitionType() == parquet.FieldRepetitionType_REPEATED {
			return nil, fmt.Errorf("file %s: column %s is nested; only columns of single values can be imported", file.Path, name)
		}
		f.names, f.columns = append(f.names, strings.ToLower(name)), append(f.columns, element)
	}
	reader.RenameSchema()
	return f, f.check(file.Path)
}

// check refuses a footer that contradicts itself.
func (f *parquetFile) check(name string) error {
	var rows int64
	for i, group := range f.meta.RowGroups {
		if group.NumRows < 0 {
			return fmt.Errorf("file %s: row group %d has %d rows: %w", name, i, group.NumRows, errCorrupt)
		}
		if len(group.Columns) != len(f.columns) {
			return fmt.Errorf("file %s: row group %d has %d columns, and the file %d", name, i, len(group.Columns), len(f.columns))
		}
		for k, column := range group.Columns {
			if column.MetaData == nil || column.FilePath != nil {
				return fmt.Errorf("file %s: column %s of row group %d is not in the file", name, f.names[k], i)
			}
			if column.MetaData.NumValues != group.NumRows {
				return fmt.Errorf("file %s: column %s of row group %d has %d values, and the group %d rows", name, f.names[k], i, column.MetaData.NumValues, group.NumRows)
			}
		}
		rows += group.NumRows
	}
	if rows != f.meta.NumRows {
		return fmt.Errorf("file %s has %d rows in its row groups, and %d by its footer", name, rows, f.meta.NumRows)
	}
	return nil
}

// divideParquet returns a chunk for each row group, or for several small ones.
func (s *Source) divideParquet(ctx context.Context, file *mydump.SourceFileMeta) ([]Chunk, error) {
	f, err := s.openFooter(ctx, file)
	if err != nil {
		return nil, err
	}
	if _, err := namedFields(s.c, f.names, true); err != nil {
		return nil, fmt.Errorf("file %s: %w", file.Path, err)
	}
	var chunks []Chunk
	c := Chunk{File: file.Path, Size: file.FileSize, Now: s.now}
	var bytes int64
	for i, group := range f.meta.RowGroups {
		c.End += group.NumRows
		bytes += group.TotalByteSize
		if bytes >= s.chunkBytes || i == len(f.meta.RowGroups)-1 {
			chunks = append(chunks, c)
			c.Start, bytes = c.End, 0
		}
	}
	return chunks, nil
}

// parquetParser reads the rows of a chunk of a Parquet file.
type parquetParser struct {
	name    string
	file    *parquetFile
	section *section
	group   int // the next row group
	// at and end are row numbers in the file; groupEnd is the end of the open row group.
	at, end, groupEnd int64
	open              []*parquetColumn
	values            []types.Datum
}

func (s *Source) openParquet(ctx context.Context, file *mydump.SourceFileMeta, c Chunk) (_ *parquetParser, err error) {
	f, err := s.openFooter(ctx, file)
	if err != nil {
		return nil, err
	}
	section, err := s.openSection(ctx, file)
	if err != nil {
		return nil, err
	}
	p := &parquetParser{name: file.Path, file: f, section: section, end: c.End, values: make([]types.Datum, len(f.columns))}
	// Row groups before the start are passed over; in the one with the start rows are read and dropped.
	for p.group < len(f.meta.RowGroups) && p.groupEnd+f.meta.RowGroups[p.group].NumRows <= c.Start {
		p.groupEnd += f.meta.RowGroups[p.group].NumRows
		p.group++
	}
	p.at = p.groupEnd
	for p.at < c.Start {
		if _, err := p.next(); err != nil {
			return nil, errs.Combine(fmt.Errorf("go on at row %d of %s: %w", c.Start, file.Path, err), p.Close())
		}
	}
	return p, nil
}

func (p *parquetParser) next() (values []types.Datum, err error) {
	if p.at >= p.end {
		return nil, io.EOF
	}
	for p.at == p.groupEnd {
		if err := p.openGroup(); err != nil {
			return nil, err
		}
	}
	for i, column := range p.open {
		if err := column.next(&p.values[i]); err != nil {
			return nil, fmt.Errorf("file %s, row %d, column %s: %w", p.name, p.at+1, p.file.names[i], err)
		}
	}
	p.at++
	return p.values, nil
}

func (p *parquetParser) openGroup() error {
	if p.group == len(p.file.meta.RowGroups) {
		return fmt.Errorf("file %s ends at row %d, before %d: %w", p.name, p.at, p.end, errChanged)
	}
	group := p.file.meta.RowGroups[p.group]
	p.open = p.open[:0]
	for i, chunk := range group.Columns {
		column, err := newParquetColumn(p.section, p.file.schema, p.file.columns[i], chunk.MetaData)
		if err != nil {
			return fmt.Errorf("file %s, column %s of row group %d: %w", p.name, p.file.names[i], p.group, err)
		}
		p.open = append(p.open, column)
	}
	p.group++
	p.groupEnd += group.NumRows
	return nil
}

func (p *parquetParser) position() int64   { return p.at }
func (p *parquetParser) columns() []string { return p.file.names }
func (p *parquetParser) read() int64       { return p.section.n }
func (p *parquetParser) Close() error      { return p.section.Close() }

var errCorrupt = errors.New("the file is corrupt or cut off")
