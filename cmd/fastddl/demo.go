package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"fastddl/config"
	"fastddl/demo"
	"fastddl/internal/terminal"
	"fastddl/server"
)

func newDemoCommand() *cobra.Command {
	opts := demo.Default()
	var logLevel string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Build an index on a table under load, and show what the load felt",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := server.InitLogging(config.Log{Level: logLevel, Format: "text"})
			if err != nil {
				return err
			}
			defer log.Close()
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)
			opts.Log = log
			opts.Target.Password = os.Getenv(passwordVariable)
			opts.Out = &watchedWriter{Writer: cmd.OutOrStdout(), gone: cancel}
			opts.Terminal = terminal.Moves(cmd.OutOrStdout())
			return demo.Run(ctx, opts)
		},
	}
	f := cmd.Flags()
	bindTarget(f, &opts.Target)
	f.IntVar(&opts.Rows, "rows", opts.Rows, "`ROWS` of the table")
	f.IntVar(&opts.Threads, "threads", opts.Threads, "`CONNECTIONS` of the load")
	f.Float64Var(&opts.Rate, "rate", opts.Rate, "bound on the load's `TRANSACTIONS` per second; 0 is none")
	f.DurationVar(&opts.Phase, "phase", opts.Phase, "how long the load is measured before and after the build")
	f.BoolVar(&opts.Keep, "keep", false, "run on until Ctrl-C, with table, index and console")
	f.StringVar(&opts.Dir, "dir", opts.Dir, "`FOLDER` for the temporary files (default: the system's)")
	f.StringVarP(&logLevel, "log-level", "L", "fatal", "lowest `LEVEL` of the server's log that is shown")
	return cmd
}

// watchedWriter notes when the reader of its output has gone.
type watchedWriter struct {
	io.Writer
	gone func(error)
}

// Write implements io.Writer.
func (w *watchedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.gone(err)
	}
	return n, err
}
