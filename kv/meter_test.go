package kv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// A meter that is not there drops what is added.
func TestNoMeter(t *testing.T) {
	var m *kv.Meter
	m.Add(kv.Costs{SentBytes: 1})
	require.Zero(t, m.Costs())
	m = new(kv.Meter)
	m.Add(kv.Costs{SentBytes: 1})
	require.Equal(t, kv.Costs{SentBytes: 1}, m.Costs())
}
