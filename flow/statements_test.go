package flow

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecent(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	m := new(StatementMeter)
	require.Zero(t, m.Recent(at(0)), "nothing has run")

	m.change(at(0), 1)
	m.change(at(20), -1)
	require.Equal(t, 20*time.Millisecond, m.Recent(at(30)))
	require.Equal(t, 20*time.Millisecond, m.Recent(at(950)))
	require.Zero(t, m.Recent(at(1200)), "it is longer ago than a second")

	m.change(at(2000), 1)
	m.change(at(2000), 1)
	require.Equal(t, 500*time.Millisecond, m.Recent(at(2250)), "two that run count twice")
	require.InDelta(t, 2*time.Second, m.Recent(at(9000)), float64(200*time.Millisecond), "of long ones the last second counts")
	m.change(at(9000), -1)
	m.change(at(9000), -1)
	require.Zero(t, m.Recent(at(10_100)))
}

func TestNilMeterMeasuresNothing(t *testing.T) {
	var m *StatementMeter
	m.Begin()()
	require.Zero(t, m.Recent(time.Now()))
}

// TestSlotsAreCountedFromTheFirstUse: by the clock of the wall, which somebody sets, they would have
// to be walked one by one from one time to another.
func TestSlotsAreCountedFromTheFirstUse(t *testing.T) {
	m := new(StatementMeter)
	m.Begin()()
	require.Less(t, m.newest, int64(1000))
	m.Begin()()
	require.Less(t, m.newest, int64(1000))
}

// TestNumberForAnotherProcess: it is that of the statements which run, from the moment at which it is shown.
func TestNumberForAnotherProcess(t *testing.T) {
	var m StatementMeter
	var number atomic.Int64
	end := m.Begin()
	m.Show(&number)
	other := NewMeterElsewhere(&number)
	require.Equal(t, 1, other.Executing())
	second := m.Begin()
	require.Equal(t, 2, other.Executing())
	end()
	second()
	require.Zero(t, other.Executing())
}
