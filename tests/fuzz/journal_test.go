package fuzz

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// journal is what was done, in the order of the ends. Its times are in milliseconds, as a timestamp's without its lower
// 18 bits.
type journal struct {
	// most is how many of the last lines are kept, 0 if all are.
	most int

	mu    sync.Mutex
	lines []string
	next  int // the oldest line, once there are most of them
}

// add notes a statement of a client that has ended.
func (j *journal) add(began time.Time, client, statement string, err error) {
	line := fmt.Sprintf("%d to %d %s: %s (%v)", began.UnixMilli(), time.Now().UnixMilli(), client, statement, err)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.most == 0 || len(j.lines) < j.most {
		j.lines = append(j.lines, line)
		return
	}
	j.lines[j.next] = line
	j.next = (j.next + 1) % j.most
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(append(append([]string(nil), j.lines[j.next:]...), j.lines[:j.next]...), "\n")
}
