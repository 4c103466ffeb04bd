package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
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

// run executes one command and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	// A write to a client, or to whoever reads the output, that is gone fails with
	// EPIPE. Neither must end the process.
	signal.Ignore(syscall.SIGPIPE)
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

// endSignals are the signals that ask for an orderly end, as with TiDB.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT}
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
		Short:         "A TiDB server that builds indexes online, fast and unnoticed",
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
