package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"fastddl/config"
	"fastddl/internal/terminal"
	"fastddl/server"
)

func newServerCommand() *cobra.Command {
	var flags *config.Flags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Serve MySQL clients until SIGTERM, SIGINT, SIGHUP or SIGQUIT",
		Long: "Serve MySQL clients until SIGTERM, SIGINT, SIGHUP or SIGQUIT. A second signal, a second or more later, ends the process at once. " +
			"SIGUSR1 writes the stacks of all goroutines to standard error.",
		Example: "  fastddl server --path ./data\n  mysql -h 127.0.0.1 -P 4000 -u root test",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.Load()
			if err != nil {
				return err
			}
			return serve(cmd, cfg, flags.PlainLog())
		},
	}
	flags = config.BindFlags(cmd.Flags())
	return cmd
}

// serve runs a server until a signal. With a terminal, and without settings of the log (plainLog), a person is at it: the log goes to a
// file, and what a person wants is shown.
func serve(cmd *cobra.Command, cfg config.Config, plainLog bool) error {
	person := terminal.Is(cmd.OutOrStdout())
	initLogging := server.InitLogging
	if person && plainLog && terminal.Is(cmd.ErrOrStderr()) {
		cfg.Log.File.Filename = logFile(cfg)
		initLogging = server.InitLoggingAmongFiles
	}
	log, err := initLogging(cfg.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	defer dumpStacksOnSignal(cmd.ErrOrStderr())()

	if person {
		fmt.Fprintf(cmd.OutOrStdout(), "starting: %s\n", storeName(cfg))
	}
	srv, err := server.Start(cmd.Context(), server.Options{Config: cfg, Log: log, Version: version, GitHash: gitHash, WorkerCommand: workerCommand})
	if err != nil {
		return err
	}
	open, err := srv.OpenAccounts(cmd.Context())
	if err != nil {
		log.Warn("cannot tell whether accounts have no password", zap.Error(err))
	}
	if len(open) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "WARNING: whoever reaches %s can log in as %s without a password. ALTER USER ... IDENTIFIED BY '...', or listen on --host 127.0.0.1\n",
			srv.Addr(), strings.Join(open, ", "))
		log.Warn("accounts have no password, and other machines reach this server", zap.Strings("accounts", open), zap.Stringer("address", srv.Addr()))
	}
	if person {
		(&banner{config: cfg, addr: srv.Addr(), statusURL: srv.StatusURL()}).write(cmd.OutOrStdout())
	}
	// Scripts that asked for a free port read it here.
	fmt.Fprintf(cmd.OutOrStdout(), "listening on %s\n", srv.Addr())
	if url := srv.StatusURL(); url != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "status on %s\n", url)
	}
	var ended error
	select {
	case <-cmd.Context().Done():
		if person {
			fmt.Fprintf(cmd.OutOrStdout(), "stopping: statements have up to %s to end; Ctrl-C again ends the server at once\n", cfg.ShutdownTimeout)
		}
	case ended = <-srv.Ended():
	}
	return errors.Join(ended, srv.Shutdown(context.Background()))
}
