package fuzz

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// recentStatements is how many statements a recent keeps.
const recentStatements = 4000

// recent keeps the last statements of all connections, in the order of their ends.
type recent struct {
	mu   sync.Mutex
	ring []string
	next int
}

// add keeps a statement that has ended. A time of the log in milliseconds is that of a timestamp without its lower 18 bits.
func (r *recent) add(began time.Time, connection int64, statement string, err error) {
	line := fmt.Sprintf("%d to %d, connection %d: %.300s (%.200v)", began.UnixMilli(), time.Now().UnixMilli(), connection, statement, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < recentStatements {
		r.ring = append(r.ring, line)
		return
	}
	r.ring[r.next] = line
	r.next = (r.next + 1) % recentStatements
}

func (r *recent) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(append(append([]string(nil), r.ring[r.next:]...), r.ring[:r.next]...), "\n")
}
