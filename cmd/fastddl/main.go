package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Set by the linker, see the Makefile.
var (
	version = "unknown"
	gitHash = "unknown"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// gcPercent is by how much garbage may exceed what is in use on the heap, in
// percent. That is little, because blocks of the store, memtables and the entries of
// index builds lie outside of it; with Go's own 100, a busy server collects ten
// times a second and has a fifth less throughput.
const gcPercent = 400

// run executes one command and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	defer stop()
	// The first signal asks for an orderly end, a second one ends at once.
	context.AfterFunc(ctx, stop)

	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	fmt.Fprintln(stderr, "fastddl:", oneLine(err))
	return 1
}

// endSignals are the signals that ask for an orderly end. SIGPIPE says that
// whoever read the output is gone, which must not leave files behind either.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// oneLine joins the lines of an error made of several.
func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "fastddl",
		Short:         "A MySQL-speaking SQL node whose ADD INDEX runs online, fast and unnoticed",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServerCommand(), newDemoCommand(), newBenchCommand(), newVersionCommand())
	return root
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the build's version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "fastddl %s (%s)\n", version, gitHash)
		},
	}
}
