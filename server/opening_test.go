package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestStartReportsItsStages: each stage when it begins, and the one that lasts again and again.
func TestStartReportsItsStages(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	now := time.Unix(1000, 0)
	o := newOpening(zap.New(core), func() time.Time { return now })
	now = now.Add(2 * time.Second)
	o.enter("replaying the log")
	now = now.Add(31 * time.Second)
	require.EqualError(t, o.reason(), "not ready: replaying the log for 31s, opening for 33s")
	require.ErrorIs(t, o.reason(), errNotReady)

	ticks := make(chan time.Time)
	stop := o.report(ticks)
	ticks <- now
	ticks <- now // the first is written
	stop()
	stop()
	var messages []string
	for _, e := range logged.All() {
		messages = append(messages, e.Message)
	}
	require.Equal(t, []string{"opening: replaying the log", "still opening: replaying the log", "still opening: replaying the log"}, messages)
	require.Equal(t, 31*time.Second, logged.All()[1].ContextMap()["sinceStage"])
	require.Equal(t, 33*time.Second, logged.All()[1].ContextMap()["sinceStart"])
}
