package ctl

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// queryer is a *sql.DB or a *sql.Conn.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// result is the answer to a query.
type result struct {
	columns []string
	// types are those of the database, by its names.
	types []string
	rows  [][]sql.NullString
}

// ask executes a query and reads its whole answer.
func ask(ctx context.Context, db queryer, query string, args ...any) (_ *result, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	r := &result{}
	if r.columns, err = rows.Columns(); err != nil {
		return nil, err
	}
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		r.types = append(r.types, t.DatabaseTypeName())
	}
	for rows.Next() {
		cells, dest := make([]sql.NullString, len(r.columns)), make([]any, len(r.columns))
		for i := range cells {
			dest[i] = &cells[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		r.rows = append(r.rows, cells)
	}
	return r, rows.Err()
}

// text returns the rows as text; NULL is empty.
func (r *result) text() [][]string {
	all := make([][]string, len(r.rows))
	for i, row := range r.rows {
		for _, cell := range row {
			all[i] = append(all[i], cell.String)
		}
	}
	return all
}

// object is a row in JSON, with its columns in their order. Numbers are numbers, JSON is itself, NULL is null, all else is text.
type object struct {
	result *result
	row    int
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range o.result.columns {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(strings.ToLower(name))
		if err != nil {
			return nil, err
		}
		value, err := jsonValue(o.result.rows[o.row][i], o.result.types[i])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func jsonValue(cell sql.NullString, kind string) ([]byte, error) {
	if !cell.Valid {
		return []byte("null"), nil
	}
	kind = strings.TrimPrefix(kind, "UNSIGNED ")
	switch kind {
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE", "JSON":
		if json.Valid([]byte(cell.String)) {
			return []byte(cell.String), nil
		}
	}
	return json.Marshal(cell.String)
}

// objects returns all rows for JSON.
func (r *result) objects() []object {
	all := make([]object, len(r.rows))
	for i := range all {
		all[i] = object{r, i}
	}
	return all
}

// writeJSON writes a value in one line.
func writeJSON(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
