package crash

import (
	"fmt"
	"regexp"
	"sync"
	"time"
)

// holding is one version of a row: it may have been visible to others from the
// beginning of the statement that wrote it to the end of the commit that took it
// away.
type holding struct {
	id   int64
	k, n string
	// to is zero while the version may be there.
	from, to time.Time
}

// holders knows which rows may have had which values when, to tell whether a
// 1062 has a reason.
type holders struct {
	mu  sync.Mutex
	all []*holding
	// indexes holds the columns of every unique index there ever was, by name.
	indexes map[string][]string
}

func newHolders() *holders { return &holders{indexes: make(map[string][]string)} }

func (h *holders) addIndex(x *indexDef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.indexes[x.name] = x.columns
}

// begin notes that a row with these values may be there from now on.
func (h *holders) begin(r row) *holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := &holding{id: r.id, k: r.values[colK], n: r.values[colN], from: time.Now()}
	h.all = append(h.all, v)
	return v
}

// end notes that the version is not there any more, or never was.
func (h *holders) end(v *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.to = time.Now()
}

var duplicateEntry = regexp.MustCompile(`Duplicate entry '(.*)' for key '\w+\.(\w+)'`)

// reason says why a 1062 with the given message, of a statement that began at
// from and is over now, has no reason; nil if it has one.
func (h *holders) reason(message string, from time.Time) error {
	m := duplicateEntry.FindStringSubmatch(message)
	if m == nil {
		return fmt.Errorf("error 1062 does not name value and key: %q", message)
	}
	value, key := m[1], m[2]
	h.mu.Lock()
	defer h.mu.Unlock()
	columns, known := h.indexes[key]
	if !known {
		return fmt.Errorf("error 1062 names an index that never was: %q", message)
	}
	var found []*holding
	for _, v := range h.all {
		if keyText(columns, v.k, v.n) != value || !v.to.IsZero() && v.to.Before(from) {
			continue
		}
		for _, w := range found {
			if w.id != v.id && w.overlaps(v) {
				return nil
			}
		}
		found = append(found, v)
	}
	return fmt.Errorf("%q: no two rows had the value at one time; those that had it: %+v", message, texts(found))
}

func (v *holding) overlaps(w *holding) bool {
	return (v.to.IsZero() || !v.to.Before(w.from)) && (w.to.IsZero() || !w.to.Before(v.from))
}

func texts(vs []*holding) []string {
	var out []string
	for _, v := range vs {
		out = append(out, fmt.Sprintf("id %d from %s to %s", v.id, v.from.Format("05.000"), v.to.Format("05.000")))
	}
	return out
}

// collides says whether another row than r had, at some time since from, r's
// value in a unique index that there is or was.
func (h *holders) collides(r row, from time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, columns := range h.indexes {
		value := keyText(columns, r.values[colK], r.values[colN])
		if value == "" {
			continue
		}
		for _, v := range h.all {
			if v.id != r.id && keyText(columns, v.k, v.n) == value && (v.to.IsZero() || !v.to.Before(from)) {
				return true
			}
		}
	}
	return false
}
