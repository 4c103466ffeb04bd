package main

import (
	"strings"

	"context"
	"errors"
	"fmt"
	"go.uber.org/zap"

	"github.com/spf13/cobra"

	"fastddl/config"
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
			return serve(cmd, cfg)
		},
	}
	flags = config.BindFlags(cmd.Flags())
	return cmd
}

func serve(cmd *cobra.Command, cfg config.Config) error {
	log, err := server.InitLogging(cfg.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	defer dumpStacksOnSignal(cmd.ErrOrStderr())()

	srv, err := server.Start(cmd.Context(), server.Options{Config: cfg, Log: log, Version: version, GitHash: gitHash})
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
	// Scripts that asked for a free port read it here.
	fmt.Fprintf(cmd.OutOrStdout(), "listening on %s\n", srv.Addr())
	if url := srv.StatusURL(); url != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "status on %s\n", url)
	}
	var ended error
	select {
	case <-cmd.Context().Done():
	case ended = <-srv.Ended():
	}
	return errors.Join(ended, srv.Shutdown(context.Background()))
}
