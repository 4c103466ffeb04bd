package main

import (
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
		RunE:   func(cmd *cobra.Command, _ []string) error { return worker.Main(cmd.Context(), func() { os.Exit(1) }) },
	}
}
