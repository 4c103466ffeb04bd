//go:build !linux

package worker

import (
	"context"
	"errors"
	"net"

	"go.uber.org/zap"

	"fastddl/flow"
)

// Supported says that this system has workers.
const Supported = false

// Starter returns a function that fails.
func Starter(string, *flow.StatementMeter, *zap.Logger) func() (Process, net.Conn, error) {
	return func() (Process, net.Conn, error) { return nil, nil, errors.ErrUnsupported }
}

// Main fails.
func Main(context.Context, func()) error { return errors.ErrUnsupported }
