package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/lightning/config"
	"github.com/pingcap/tidb/pkg/lightning/mydump"
)

// csvBlockBytes is how much of a CSV file is read at a time.
const csvBlockBytes = 64 << 10

// parser returns TiDB's parser of CSV, configured as IMPORT INTO configures it.
func (c *CSV) parser(ctx context.Context, r mydump.ReadSeekCloser) (*mydump.CSVParser, error) {
	return mydump.NewCSVParser(ctx, &config.CSVConfig{
		Separator: c.TerminatedBy, Delimiter: c.EnclosedBy, EscapedBy: c.EscapedBy, Terminator: c.LinesTerminatedBy, Null: []string{c.Null},
	}, r, csvBlockBytes, nil, false, nil)
}

// column is one of a table on the server.
type column struct {
	name      string
	generated bool
}

// fields says which column each field of a table's files is.
type fields struct {
	// columns are empty if the fields are all columns of the table in its order.
	columns []string
	// skipHeader says that the first line of each file is none of data.
	skipHeader bool
}

// csvFields finds the columns of a CSV table's fields, from the dump or from the first line of each file.
func csvFields(ctx context.Context, t *Table, columns []column) (fields, error) {
	if len(t.CSV.Columns) > 0 {
		return fields{columns: t.CSV.Columns}, nil
	}
	var found fields
	for i := range t.Files {
		first, err := t.CSV.firstRecord(ctx, &t.Files[i])
		if err != nil {
			return fields{}, err
		}
		f, err := fieldsOf(first, columns, t.CSV.Header)
		if err != nil {
			return fields{}, fmt.Errorf("%s: %w", t.Files[i].Path, err)
		}
		if i > 0 && (f.skipHeader != found.skipHeader || !slices.EqualFunc(f.columns, found.columns, strings.EqualFold)) {
			return fields{}, fmt.Errorf("%s and %s begin with different headers", t.Files[0].Path, t.Files[i].Path)
		}
		found = f
	}
	return found, nil
}

// firstRecord returns the fields of a file's first line.
func (c *CSV) firstRecord(ctx context.Context, f *File) (_ []string, err error) {
	r, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	p, err := c.parser(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := p.ReadRow(); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, fmt.Errorf("%s, line 1: %w", f.Path, err)
	}
	var record []string
	for _, d := range p.LastRow().Row {
		record = append(record, d.GetString())
	}
	return record, nil
}

// fieldsOf decides what the first line of a file says: pure.
func fieldsOf(first []string, columns []column, header Header) (fields, error) {
	known := make(map[string]int, len(columns)) // how often a field has the name
	var plain []string
	for _, c := range columns {
		known[strings.ToLower(c.name)] = 0
		if !c.generated {
			plain = append(plain, c.name)
		}
	}
	var problem error
	for _, name := range first {
		n, ok := known[strings.ToLower(name)]
		switch {
		case !ok:
			problem = cmpError(problem, fmt.Errorf("the header names %q, which is no column of the table", name))
		case n > 0:
			problem = cmpError(problem, fmt.Errorf("the header names %q twice", name))
		}
		known[strings.ToLower(name)]++
	}
	switch {
	case header == HeaderYes && len(first) > 0 && problem != nil:
		return fields{}, problem
	case header != HeaderNo && len(first) > 0 && problem == nil:
		return fields{columns: first, skipHeader: true}, nil
	case len(plain) < len(columns) && len(first) == len(plain): // the fields of a dump: it leaves generated columns out
		return fields{columns: plain}, nil
	}
	return fields{}, nil
}

// cmpError returns the first error.
func cmpError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
