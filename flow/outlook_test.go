package flow

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// sampledOnce has always the same signals.
type sampledOnce struct{ Signals }

func (s sampledOnce) Begin(time.Time) Signals  { return s.Signals }
func (s sampledOnce) Sample(time.Time) Signals { return s.Signals }

// TestOutlookHasTheTarget: what a job would have is what it has when it begins.
func TestOutlookHasTheTarget(t *testing.T) {
	m := beside(t, 50, time.Millisecond)
	signals := m.signals()
	signals.Target = 0
	g := NewGovernor(func() bool { return true })
	g.Observe(sampledOnce{signals}, nil)
	without := g.Outlook()
	g.Target(func() time.Duration { return time.Millisecond })
	require.Less(t, g.Outlook().Share, without.Share)
	end := g.begin(func(error) {})
	defer end()
	foreseen, has := g.Outlook(), g.Decision()
	require.Equal(t, has, foreseen)
}

// TestOutlookLeavesTimeToStatements: without a target a job would have what they leave.
func TestOutlookLeavesTimeToStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter := new(StatementMeter)
		defer meter.Begin()()
		time.Sleep(window)
		g := NewGovernor(func() bool { return true })
		g.Observe(sampledOnce{Signals{Statements: meter.Recent(time.Now())}}, meter)
		d := g.Outlook()
		require.InDelta(t, max(minInitialShare, 1-1/float64(Cores())), d.Share, 0.1/float64(Cores()))
		require.Equal(t, Statements, d.Reason)
	})
}
