package sbtest

import (
	"context"
	"database/sql"
	"iter"
	"strconv"

	"golang.org/x/sync/errgroup"
)

// insertRows is the number of rows of one INSERT.
const insertRows = 500

// Fill fills the table by INSERT statements, through so many connections at a time.
func Fill(ctx context.Context, db *sql.DB, g Generator, connections int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(connections)
	for block := 0; block < g.Blocks() && ctx.Err() == nil; block++ {
		group.Go(func() error {
			for query := range g.inserts(block) {
				if _, err := db.ExecContext(ctx, query); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// inserts returns the statements that insert the rows of a block.
func (g Generator) inserts(block int) iter.Seq[string] {
	return func(yield func(string) bool) {
		query, rows := make([]byte, 0, insertRows*RowBytes), 0
		for r := range g.Block(block) {
			if rows == 0 {
				query = append(query[:0], "INSERT INTO "+Table+" (id, k, c, pad) VALUES "...)
			} else {
				query = append(query, ',')
			}
			query = appendValues(query, r)
			if rows++; rows == insertRows {
				if rows = 0; !yield(string(query)) {
					return
				}
			}
		}
		if rows > 0 {
			yield(string(query))
		}
	}
}

func appendValues(dst []byte, r Row) []byte {
	dst = append(dst, '(')
	dst = strconv.AppendInt(dst, r.ID, 10)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, r.K, 10)
	dst = append(append(append(dst, ",'"...), r.C...), "','"...)
	return append(append(dst, r.Pad...), "')"...)
}
