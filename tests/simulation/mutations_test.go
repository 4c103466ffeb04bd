package simulation

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

const (
	// maxHistories is within how many histories a mutation has to be found.
	maxHistories = 100_000
	// maxPromiseHistories is that for a search that looks at the promise only.
	maxPromiseHistories = 1_000_000
)

// TestMutationsAreFound breaks the protocol in one place after the other. Each mutation is
// found, and the finding names the invariant or says that the promise is broken.
func TestMutationsAreFound(t *testing.T) {
	randtest.SkipShort(t)
	count := make(map[string]int)
	for _, m := range mutations {
		count[m.invariant]++
		t.Run(fmt.Sprintf("%s %s", m.invariant, m.breaks), func(t *testing.T) {
			n, v := m.search(maxHistories, false)
			require.NotNil(t, v, "nothing shows %q in %d histories", m.shows, n)
			t.Logf("found in history %d: %s", n, v)
			if !m.promise || os.Getenv("FASTDDL_LONG") == "" {
				return
			}
			n, v = m.search(maxPromiseHistories, true)
			require.NotNil(t, v, "the promise holds in %d histories", n)
			t.Logf("the promise is broken in history %d: %s", n, v)
		})
	}
	for i := 1; i <= 8; i++ {
		require.GreaterOrEqual(t, count[fmt.Sprintf("I%d", i)], 5, "I%d", i)
	}
}

// search runs the histories of fixed seeds until one shows what the mutation is to show, or
// that the promise is broken, and returns how many those were.
func (m *mutation) search(limit int, promiseOnly bool) (n int, v *violation) {
	w := world{mutant: m.mutant, promiseOnly: promiseOnly}
	var events []event
	for n = 1; n <= limit; n++ {
		h := randomHistory(uint64(n), events, m.more...)
		events = h.events
		if v := w.run(h); v != nil && (promiseOnly || strings.HasPrefix(v.String(), m.shows)) {
			return n, v
		}
	}
	return limit, nil
}

// TestShrink: a history that is made short breaks the same, with every event needed.
func TestShrink(t *testing.T) {
	m := mutation{mutant: tombstonesDropped}
	n, v := m.search(maxHistories, false)
	require.NotNil(t, v)
	w := world{mutant: m.mutant}
	long := randomHistory(uint64(n), nil)
	short := w.shrink(long, v)
	require.Less(t, len(short.events), len(long.events)/2)
	got := w.run(short)
	require.NotNil(t, got)
	require.Equal(t, v.invariant, got.invariant)
	require.Contains(t, w.retell(short), "BROKEN: "+v.invariant)
}
