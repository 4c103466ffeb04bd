package demo

import (
	"context"
	"math/rand/v2"
	"time"

	"fastddl/sbtest"
)

// loadTable creates the table and fills it through several connections.
func (d *demo) loadTable(ctx context.Context) error {
	if _, err := d.db.ExecContext(ctx, sbtest.CreateSQL); err != nil {
		return err
	}
	start := time.Now()
	if err := sbtest.Fill(ctx, d.db, sbtest.Generator{Rows: d.Rows, Seed: rand.Uint64()}, d.Threads); err != nil {
		return err
	}
	elapsed := time.Since(start).Seconds()
	d.say("table %s: %d rows loaded in %.1f s (%.0f rows/s)", sbtest.Table, d.Rows, elapsed, float64(d.Rows)/elapsed)
	return nil
}
