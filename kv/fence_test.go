package kv_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

func TestPermit(t *testing.T) {
	require.NoError(t, kv.CheckPermit(t.Context()), "who asks for nothing is not held back")
	var lost error
	ctx := kv.WithPermit(t.Context(), func() error { return lost })
	below, cancel := context.WithCancel(ctx)
	defer cancel()
	require.NoError(t, kv.CheckPermit(below))
	lost = errors.New("lost")
	require.ErrorIs(t, kv.CheckPermit(below), lost, "it is asked each time")
}
