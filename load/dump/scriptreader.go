package dump

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"fastddl/internal/errs"
)

// scriptReader gives the rows of a script to the ways of their tables.
type scriptReader struct {
	loader  *loader
	script  *script
	actions map[Name]action
	// group runs the loads of tables that are in files.
	group *errgroup.Group
	// parts are the tables whose rows have begun and not ended; left has how many bytes of each are to be read still.
	parts map[Name]part
	left  map[Name]int64
}

// part takes the rows of a table as they are read. end is called once, with the error that ends the script's reading before
// the rows end, or nil.
type part interface {
	take(ctx context.Context, text []byte, line int64) error
	end(ctx context.Context, readErr error) error
}

func (r *scriptReader) read(ctx context.Context) (err error) {
	defer func() {
		for _, p := range r.parts {
			if err == nil {
				err = fmt.Errorf("%s has changed since the load began", r.script.file.Path)
			}
			err = p.end(ctx, err)
		}
	}()
	for {
		c, st, err := r.script.next()
		if atEnd(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a, wanted := r.actions[c.name]
		if c.kind != kindInsert || !wanted || a.done {
			continue
		}
		p := r.parts[c.name]
		if p == nil {
			if p, err = r.begin(ctx, a); err != nil {
				return err
			}
			r.parts[c.name], r.left[c.name] = p, a.table.section.bytes
		}
		if err := p.take(ctx, withoutLeadingComments(st.text), st.line); err != nil {
			return err
		}
		if r.left[c.name] -= int64(len(st.text)); r.left[c.name] > 0 {
			continue
		}
		delete(r.parts, c.name)
		if err := p.end(ctx, nil); err != nil {
			return err
		}
	}
}

func (r *scriptReader) begin(ctx context.Context, a action) (part, error) {
	if a.way == WayImport {
		columns, err := r.loader.rewrittenColumns(ctx, a.table)
		if err != nil {
			return nil, err
		}
		w, err := r.loader.spool.begin(ctx, a.table, columns)
		if err != nil {
			return nil, err
		}
		return &importPart{reader: r, action: a, files: w}, nil
	}
	in, err := r.loader.beginInsert(ctx, a)
	if err != nil {
		return nil, err
	}
	return &insertPart{reader: r, in: in}, nil
}

// importPart writes rows to files. At their end the files are imported beside the reading of the script.
type importPart struct {
	reader *scriptReader
	action action
	files  *spooled
}

func (p *importPart) take(ctx context.Context, text []byte, line int64) error {
	if err := p.files.write(ctx, text); err != nil {
		return fmt.Errorf("%s, line %d: %w", p.reader.script.file.Path, line, err)
	}
	return nil
}

func (p *importPart) end(ctx context.Context, readErr error) error {
	if readErr == nil {
		readErr = p.files.end()
	}
	if readErr != nil {
		return errs.Combine(readErr, p.files.drop())
	}
	p.reader.group.Go(func() (err error) {
		defer errs.Contain(&err)
		defer func() { err = errs.Combine(err, p.files.drop()) }()
		a := p.action
		a.table = &p.files.table
		return p.reader.loader.table(ctx, a)
	})
	return nil
}

// insertPart sends rows as they are read.
type insertPart struct {
	reader *scriptReader
	in     *inserter
}

func (p *insertPart) take(_ context.Context, text []byte, line int64) error {
	return p.in.insert(insertion{text: string(text), bytes: int64(len(text)), source: fmt.Sprintf("%s, line %d", p.reader.script.file.Path, line)})
}

func (p *insertPart) end(ctx context.Context, readErr error) error {
	return p.reader.loader.endInsert(ctx, p.in, readErr)
}
