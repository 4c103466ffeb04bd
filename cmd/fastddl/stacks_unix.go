//go:build unix

package main

import (
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// dumpStacksOnSignal writes the stacks of all goroutines to w at each SIGUSR1, as
// TiDB does: SIGQUIT, with which Go programs do that, ends the server. It stops
// when the returned function is called.
func dumpStacksOnSignal(w io.Writer) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			_ = pprof.Lookup("goroutine").WriteTo(w, 2) // an error means that w has gone
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}
