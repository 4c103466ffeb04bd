package fuzz

import (
	"sync"
	"testing"
)

// examples are statements with the same kind of end, the first of each message.
type examples struct {
	kind string
	// most is how many messages are kept.
	most int

	mu    sync.Mutex
	count int
	first map[string]string
}

func newExamples(kind string) *examples {
	return &examples{kind: kind, most: shown, first: make(map[string]string)}
}

func (e *examples) add(message, statement string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	if _, known := e.first[message]; !known && len(e.first) < e.most {
		e.first[message] = statement
	}
}

func (e *examples) print(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	t.Logf("%d %s", e.count, e.kind)
	for message, statement := range e.first {
		t.Logf("  %.200s: %.2000s", message, statement)
	}
}
