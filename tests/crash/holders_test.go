package crash

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	// indexes holds every unique index there ever was, by name.
	indexes map[string]uniqueIndex
}

type uniqueIndex struct {
	columns []string
	// byTiDB says that TiDB builds it in its own way. If an update gives a row
	// another clustered key meanwhile, the temporary index keeps both keys, and TiDB
	// may then take them for two rows with one value, also long after.
	byTiDB bool
}

// counts says whether a version can be a reason why a statement that began at
// from found its value taken.
func (x *uniqueIndex) counts(v *holding, value string, from time.Time) bool {
	return keyText(x.columns, v.k, v.n) == value && (x.byTiDB || v.to.IsZero() || !v.to.Before(from))
}

func newHolders() *holders { return &holders{indexes: make(map[string]uniqueIndex)} }

func (h *holders) addIndex(x *indexDef, byTiDB bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.indexes[x.name] = uniqueIndex{x.columns, byTiDB}
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
// from and is over now, has no reason; nil if it has one. Versions of snapshot are
// those that an optimistic transaction has written since from: it looks for others
// among the rows that there were when it began.
func (h *holders) reason(message string, from time.Time, snapshot []*holding) error {
	m := duplicateEntry.FindStringSubmatch(message)
	if m == nil {
		return fmt.Errorf("error 1062 does not name value and key: %q", message)
	}
	value, key := m[1], m[2]
	h.mu.Lock()
	defer h.mu.Unlock()
	index, known := h.indexes[key]
	if !known {
		return fmt.Errorf("error 1062 names an index that never was: %q", message)
	}
	var found []*holding
	for _, v := range h.all {
		if !index.counts(v, value, from) {
			continue
		}
		if slices.Contains(snapshot, v) {
			v = &holding{id: v.id, k: v.k, n: v.n, from: from, to: v.to}
		}
		for _, w := range found {
			if index.byTiDB || w.id != v.id && w.overlaps(v) {
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
// value in a unique index that there is or was; for an index that TiDB builds, r
// may be there in two versions.
func (h *holders) collides(r row, from time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.indexes {
		value := keyText(x.columns, r.values[colK], r.values[colN])
		if value == "" {
			continue
		}
		own := 0
		for _, v := range h.all {
			if !x.counts(v, value, from) {
				continue
			}
			if v.id != r.id {
				return true
			}
			if own++; own > 1 && x.byTiDB {
				return true
			}
		}
	}
	return false
}

// A value that was free again before it was written is a reason only where the
// writer does not see that.
func TestReasonsOfDuplicates(t *testing.T) {
	h := newHolders()
	h.addIndex(&indexDef{name: "u", unique: true, columns: []string{"n"}}, false)
	version := func(id int64) *holding { return h.begin(row{id: id, values: []string{null, "7"}}) }
	const message = "Duplicate entry '7' for key 't0.u'"
	other, begun := version(1), time.Now()
	h.end(other)
	time.Sleep(time.Millisecond) // the next version comes later
	own := version(2)
	require.Error(t, h.reason(message, begun, nil), "the value was free")
	require.NoError(t, h.reason(message, begun, []*holding{own}), "it was not, in the snapshot")
	require.Error(t, h.reason(message, time.Now(), []*holding{own}), "in a later snapshot it was")
	version(3)
	require.NoError(t, h.reason(message, begun, nil), "another row has it now")
}
