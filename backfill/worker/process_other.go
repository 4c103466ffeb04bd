//go:build !linux

package worker

import (
	"context"
	"errors"
	"net"

	"go.uber.org/zap"
)

// Supported says that this system has workers.
const Supported = false

// Starter returns a function that fails.
func Starter(string, *zap.Logger) func() (Process, net.Conn, error) {
	return func() (Process, net.Conn, error) { return nil, nil, errors.ErrUnsupported }
}

// Main fails.
func Main(context.Context) error { return errors.ErrUnsupported }
