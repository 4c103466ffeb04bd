package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	root := &cobra.Command{
		Use:           "fastddl-bench",
		Short:         "Compare ADD INDEX with other systems",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newPeersCommand(), newScaleCommand(), newReportCommand(), newModelCommand(), newExplainCommand(), newLoadCommand(), newFlowCommand())
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fastddl-bench:", err)
		os.Exit(1)
	}
}
