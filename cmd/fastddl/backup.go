package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"fastddl/config"
	"fastddl/internal/errs"
	"fastddl/internal/terminal"
	"fastddl/kv/backup"
	"fastddl/server"
)

func newBackupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Look after backups, which BACKUP DATABASE * takes",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newVerifyCommand())
	return cmd
}

// verifyMemory bounds the memory of a server that checks tables.
const verifyMemory = 1 << 30

func newVerifyCommand() *cobra.Command {
	var tables bool
	var tempDir string
	cmd := &cobra.Command{
		Use:   "verify FOLDER",
		Short: "Read a backup and look for damage",
		Long: "Read a backup: each file must have its size and its checksum, and each block of each table its own. With --tables a store is made of it, " +
			"in a folder that is removed again, and ADMIN CHECK TABLE compares each table with its indexes.",
		Example: "  fastddl backup verify /backups/monday --tables",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, out := args[0], cmd.OutOrStdout()
			m, err := verifyFiles(cmd.Context(), dir, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s: %d files, %s, of fastddl %s, as of %s: no damage\n", dir, len(m.Files), bytesText(m.Bytes()), m.Version, timestampText(m.TS))
			if !tables {
				return nil
			}
			if tempDir == "" {
				tempDir = filepath.Dir(filepath.Clean(dir))
			}
			n, err := verifyTables(cmd.Context(), dir, tempDir, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s: %d tables: no damage\n", dir, n)
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&tables, "tables", false, "check all tables too")
	f.StringVar(&tempDir, "temp-dir", "", "`FOLDER` for the store that is made to check tables (default: the one that the backup lies in, where files can be linked)")
	return cmd
}

// progressInterval is the time between two lines of progress.
const progressInterval = time.Second

// verifyFiles reads a backup. It shows on a terminal how much was read.
func verifyFiles(ctx context.Context, dir string, screen io.Writer) (*backup.Metadata, error) {
	m, err := backup.Read(dir)
	if err != nil {
		return nil, err
	}
	var read atomic.Int64
	if terminal.Is(screen) {
		tick := time.NewTicker(progressInterval)
		shown, end := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(shown)
			for {
				select {
				case <-tick.C:
					fmt.Fprintf(screen, "\r%s of %s ", bytesText(read.Load()), bytesText(m.Bytes()))
				case <-end:
					fmt.Fprint(screen, "\r\033[K")
					return
				}
			}
		}()
		defer func() {
			tick.Stop()
			close(end)
			<-shown
		}()
	}
	return backup.Verify(ctx, dir, func(n int64) { read.Add(n) })
}

// verifyTables makes a store of a backup and checks its tables.
func verifyTables(ctx context.Context, dir, tempDir string, screen io.Writer) (n int, err error) {
	tmp, err := os.MkdirTemp(tempDir, "fastddl-verify-")
	if err != nil {
		return 0, fmt.Errorf("temp-dir: %w", err)
	}
	defer func() { err = errs.Combine(err, os.RemoveAll(tmp)) }()
	log, err := server.InitLogging(config.Log{Level: "fatal", Format: "text"})
	if err != nil {
		return 0, err
	}
	defer log.Close()
	store := filepath.Join(tmp, "store")
	if _, err := backup.Restore(ctx, dir, store, log.Logger); err != nil {
		return 0, err
	}
	cfg := config.Default()
	cfg.Path, cfg.Port, cfg.MemoryLimit = store, 0, verifyMemory
	cfg.Status.ReportStatus = false
	cfg.Security.AutoTLS = false
	cfg.EnsureDefaults()
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	show := func(string, string) {}
	if terminal.Is(screen) {
		show = func(db, table string) { fmt.Fprintf(screen, "\r\033[K%s.%s ", db, table) }
		defer fmt.Fprint(screen, "\r\033[K")
	}
	return server.CheckTables(ctx, server.NodeOptions{Config: cfg, Log: log, Version: version, GitHash: gitHash}, show)
}
