package foreground

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGuestWaitsForStatements(t *testing.T) {
	m := new(Meter)
	g := Guest{Meter: m, Least: 0.1}
	require.Zero(t, g.Yield(0), "nothing runs")
	require.Zero(t, m.Executing())

	one, two := m.Begin(), m.Begin()
	require.Equal(t, 2, m.Executing())
	time.Sleep(2 * time.Millisecond)
	require.Zero(t, g.Yield(2), "beside as many it goes on")
	time.AfterFunc(time.Millisecond, one)
	waited := g.Yield(1)
	require.Positive(t, waited)
	require.Equal(t, 1, m.Executing())
	two()
	require.Zero(t, new(Guest).Yield(0))
}

// TestGuestHasItsPart: beside statements that never end it has the least part, and
// not what it did not wait for before on top of that.
func TestGuestHasItsPart(t *testing.T) {
	m := new(Meter)
	g := Guest{Meter: m, Least: 0.25}
	g.Yield(0)
	time.Sleep(100 * time.Millisecond)
	defer m.Begin()()
	require.Less(t, g.Yield(0), 2*longestYield)
	var worked, waited time.Duration
	for range 20 {
		start := time.Now()
		time.Sleep(time.Millisecond)
		worked += time.Since(start)
		waited += g.Yield(0)
	}
	require.InDelta(t, 3, float64(waited)/float64(worked), 1)
}
