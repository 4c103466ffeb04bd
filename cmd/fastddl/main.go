package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fastddl/ctl"
	"fastddl/ctl/connect"
	"fastddl/internal/errs"
	"fastddl/internal/terminal"
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
	// A write to a client that has gone, or to a reader of the output that has gone,
	// fails with EPIPE. Neither must end the process.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, endSignals()...)
	ctx, stop := contextOfSignals(signals, func() <-chan time.Time { return time.After(sameSignal) }, func() { signal.Stop(signals) })
	defer stop()

	root := newRootCommand()
	if len(args) > 0 && args[0] == ctlName {
		args = connect.Args(args)
	}
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
	var ended *ctl.Error
	if errors.As(err, &ended) && ended.Err == nil {
		return int(ended.Code) // all was said
	}
	fmt.Fprintln(stderr, "fastddl:", terminal.Clean(errs.OneLine(err).Error()))
	return int(ctl.CodeOf(err))
}

// sameSignal is the time within which a second signal is the first one once more: GNU timeout
// signals the process and then its group.
const sameSignal = time.Second

// contextOfSignals returns a context that ends with the first signal, which asks for an
// orderly end. After sameSignal, when the channel of after receives, a second one ends
// the process at once: release gives the signals back. stop does that too.
func contextOfSignals(signals <-chan os.Signal, after func() <-chan time.Time, release func()) (ctx context.Context, stop func()) {
	ctx, end := context.WithCancel(context.Background())
	quit := make(chan struct{})
	go func() {
		defer release()
		defer end()
		select {
		case <-signals:
			end()
		case <-quit:
			return
		}
		for over := after(); ; {
			select {
			case <-signals: // the first once more
			case <-over:
				return
			case <-quit:
				return
			}
		}
	}()
	return ctx, sync.OnceFunc(func() { close(quit) })
}

// endSignals are the signals that ask for an orderly end, as with TiDB.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "fastddl",
		Short:         "A TiDB server that builds indexes online, fast and unnoticed",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
	}
	root.SetVersionTemplate(versionLine())
	root.Flags().BoolP("version", "V", false, "print the build's version") // as tidb-server has it
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServerCommand(), newCtlCommand(), newLoadCommand(), newDemoCommand(), newBenchCommand(), newRestoreCommand(), newBackupCommand(), newWorkerCommand(), newVersionCommand())
	return root
}

func versionLine() string { return fmt.Sprintf("fastddl %s (%s)\n", version, gitHash) }

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the build's version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), versionLine())
		},
	}
}
