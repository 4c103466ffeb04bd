// Command serve runs the stand-in for a TiKV cluster until it is interrupted, as a process
// of its own, to which servers and run.sh can be pointed by hand. It is a tool for tests:
// the data is in memory, and faults cannot be ordered.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"fastddl/tests/cluster/standin"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// run prints "PD is at" and its address in a line, and serves until a signal.
func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "standin-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config := zap.NewProductionConfig()
	config.Encoding, config.EncoderConfig = "console", zap.NewDevelopmentEncoderConfig()
	config.Level = zap.NewAtomicLevelAt(zapcore.WarnLevel)
	log, err := config.Build()
	if err != nil {
		return err
	}
	c, err := standin.Start(standin.Options{Dir: dir, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	pd, err := c.Open()
	if err != nil {
		return err
	}
	fmt.Println("PD is at", pd.Addr)
	<-ctx.Done()
	return nil
}
