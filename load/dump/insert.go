package dump

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"fastddl/internal/errs"
)

// insertConns is the number of connections that fill one table.
const insertConns = 4

// inserter fills one table by INSERTs over several connections. Rows have no order: each statement is a transaction.
type inserter struct {
	table *Table
	// columns are those of the table if statements are rewritten without the generated ones, else none.
	columns []column
	// progress is called with the bytes of each statement that is done.
	progress func(bytes int64)

	group      *errgroup.Group
	ctx        context.Context
	statements chan insertion
	rows       atomic.Int64
}

// insertion is a statement, the bytes of the source that it stands for, and where it is from.
type insertion struct {
	text   string
	bytes  int64
	source string
}

// newInserter starts the connections, which open returns. finish must be called.
func newInserter(ctx context.Context, t *Table, columns []column, open func(ctx context.Context) (*sql.Conn, error), progress func(int64)) *inserter {
	in := &inserter{table: t, columns: columns, progress: progress, statements: make(chan insertion)}
	in.group, in.ctx = errgroup.WithContext(ctx)
	for range insertConns {
		in.group.Go(func() (err error) {
			defer errs.Contain(&err)
			conn, err := open(in.ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, conn.Close()) }()
			return in.work(conn)
		})
	}
	return in
}

func (in *inserter) work(conn *sql.Conn) error {
	for s := range in.statements {
		if len(in.columns) > 0 {
			var err error
			if s.text, err = withoutGenerated(in.ctx, in.table, in.columns, s.text); err != nil {
				return fmt.Errorf("%s: %w", s.source, err)
			}
		}
		result, err := conn.ExecContext(in.ctx, s.text)
		if err != nil {
			return fmt.Errorf("%s: INSERT INTO %s: %w", s.source, in.table.Name, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		in.rows.Add(n)
		in.progress(s.bytes)
	}
	return nil
}

// insert executes a statement, later.
func (in *inserter) insert(s insertion) error {
	select {
	case in.statements <- s:
		return nil
	case <-in.ctx.Done():
		return context.Cause(in.ctx)
	}
}

// finish waits for all statements and returns the number of rows, or the first error: a statement's rather than that of its
// reader, which it has stopped.
func (in *inserter) finish(readErr error) (int64, error) {
	close(in.statements)
	err := in.group.Wait()
	if err == nil || errors.Is(err, context.Canceled) && readErr != nil {
		err = readErr
	}
	return in.rows.Load(), err
}

// insertFiles reads the files of a table and inserts their rows.
func insertFiles(ctx context.Context, in *inserter, f fields) error {
	for i := range in.table.Files {
		file := &in.table.Files[i]
		var err error
		if file.Format == SQL {
			err = insertSQL(ctx, in, file)
		} else {
			err = insertRows(ctx, in, file, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// insertSQL sends the INSERT statements of a file as they are.
func insertSQL(ctx context.Context, in *inserter, file *File) (err error) {
	s, err := openScript(ctx, *file, in.table.Name.Schema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var counted int64
	for {
		c, st, err := s.next()
		if atEnd(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.kind != kindInsert {
			return fmt.Errorf("%s, line %d: INSERT is expected in a file of rows: %s", file.Path, st.line, shortText(st.text))
		}
		size := int64(len(st.text))
		if file.Compression != "" { // progress is in bytes of the files
			size = s.scanned(file.Bytes, counted)
		}
		counted += size
		if err := in.insert(insertion{text: string(withoutLeadingComments(st.text)), bytes: size, source: fmt.Sprintf("%s, line %d", file.Path, st.line)}); err != nil {
			return err
		}
	}
}

// scanned returns how many bytes of a compressed file have been read beyond those counted, at most its size.
func (s *script) scanned(size, counted int64) int64 {
	at, err := s.reader.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return max(0, min(at, size)-counted)
}
