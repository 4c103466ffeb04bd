package model

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"fastddl/event"
)

// journalLen is how many events a failed round prints.
const journalLen = 300

// journal keeps the newest events of the schema changes.
type journal struct {
	start time.Time

	mu    sync.Mutex
	lines []string
}

func newJournal(bus *event.Bus) *journal {
	j := &journal{start: time.Now()}
	bus.Subscribe(func(e event.Event) {
		if _, frequent := e.(event.Progress); !frequent {
			j.add("%T %s", e, e)
		}
	})
	return j
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) >= journalLen {
		j.lines = j.lines[1:]
	}
	j.lines = append(j.lines, fmt.Sprintf("%8.3fs ", time.Since(j.start).Seconds())+fmt.Sprintf(format, args...))
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}
