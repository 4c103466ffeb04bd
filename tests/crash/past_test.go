package crash

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// moment is what a table held at a timestamp.
type moment struct {
	t    *table
	ts   uint64
	rows uint64 // their digest
}

// past are moments of this life of the server that can be read again.
type past struct {
	mu       sync.Mutex
	moments  []moment
	compared atomic.Int64
}

const maxMoments = 40

func (p *past) remember(m moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.moments) == maxMoments {
		p.moments = slices.Delete(p.moments, 0, 1)
	}
	p.moments = append(p.moments, m)
}

func (p *past) random(rng *rand.Rand) (moment, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.moments) == 0 {
		return moment{}, false
	}
	return pick(rng, p.moments...), true
}

// digest is a number that bags with other rows hardly have.
func digest(bag map[string]int) uint64 {
	var sum uint64
	for row, n := range bag {
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%d %s", n, row)
		sum += h.Sum64()
	}
	return sum
}

// comparePast reads a table as of a moment again: it must hold what it held, and every
// index that it had must, too.
func (r *run) comparePast(ctx context.Context, db *sql.DB, rng *rand.Rand) error {
	m, ok := r.past.random(rng)
	if !ok {
		return nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	c := &connection{Conn: conn}
	defer c.abandon() // which no other statement is to read the past with
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION tidb_snapshot = '%d'", m.ts)); err != nil {
		return fmt.Errorf("go back to %d: %w", m.ts, err)
	}
	rows, n, err := r.compareIn(ctx, conn, m.t)
	r.compared.Add(n)
	r.past.compared.Add(n)
	if err != nil {
		return fmt.Errorf("as of %d: %w", m.ts, err)
	}
	if digest(rows) != m.rows {
		return wrongf("table %s is not what it was at %d", m.t.name, m.ts)
	}
	return nil
}
