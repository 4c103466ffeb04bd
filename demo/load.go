package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// createSQL is sysbench's table, without its secondary index.
const createSQL = `CREATE TABLE ` + tableName + ` (
  id INT NOT NULL AUTO_INCREMENT,
  k INT NOT NULL DEFAULT 0,
  c CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT '',
  PRIMARY KEY (id)
)`

// insertRows is the number of rows of one INSERT of the loader.
const insertRows = 500

// loadTable creates the table and fills it through several connections.
func (d *demo) loadTable(ctx context.Context) error {
	if _, err := d.db.ExecContext(ctx, createSQL); err != nil {
		return err
	}
	start := time.Now()
	batches := make(chan int)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(batches)
		for left := d.Rows; left > 0; left -= insertRows {
			select {
			case batches <- min(left, insertRows):
			case <-gctx.Done():
				return context.Cause(gctx)
			}
		}
		return nil
	})
	for range d.Threads {
		rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		g.Go(func() error {
			for n := range batches {
				if _, err := d.db.ExecContext(gctx, insertBatch(rng, n, d.Rows)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	elapsed := time.Since(start).Seconds()
	d.say("table %s: %d rows loaded in %.1f s (%.0f rows/s)", tableName, d.Rows, elapsed, float64(d.Rows)/elapsed)
	return nil
}

// insertBatch is an INSERT of n rows; IDs come from AUTO_INCREMENT.
func insertBatch(rng *rand.Rand, n, tableRows int) string {
	var b strings.Builder
	b.Grow(n * 200)
	b.WriteString("INSERT INTO " + tableName + " (k, c, pad) VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d,'%s','%s')", 1+rng.IntN(tableRows), digitGroups(rng, 10), digitGroups(rng, 5))
	}
	return b.String()
}

// digitGroups is text as sysbench makes it: groups of eleven digits.
func digitGroups(rng *rand.Rand, groups int) string {
	b := make([]byte, 0, groups*12)
	for g := range groups {
		if g > 0 {
			b = append(b, '-')
		}
		v := rng.Uint64()
		for range 11 {
			b = append(b, byte('0'+v%10))
			v /= 10
		}
	}
	return string(b)
}
