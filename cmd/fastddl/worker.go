package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"fastddl/backfill/worker"
)

// workerCommand is the command of processes that build index entries for a server, which starts them.
const workerCommand = "build-worker"

func newWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerCommand,
		Short:  "Build index entries for the server that has started this process",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := context.WithoutCancel(cmd.Context()) // it ends with its server, which a signal to both has asked to end
			return worker.Main(ctx, func() { os.Exit(1) })
		},
	}
}
