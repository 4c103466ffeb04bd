package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fastddl/config"
	"fastddl/internal/errs"
	"fastddl/internal/terminal"
	"fastddl/load/dump"
	"fastddl/server"
)

// loadFlags are the flags of the command load that are not options of the package themselves.
type loadFlags struct {
	host, socket, password, path, header, logLevel string
	port                                           int
	quota                                          config.ByteSize
}

func newLoadCommand() *cobra.Command {
	opts := dump.Default()
	flags := newLoadFlags(opts)
	cmd := &cobra.Command{
		Use:   "load DIR|FILE...",
		Short: "Load a dump: databases, tables with their indexes, rows, views",
		Long: "Load the output of Dumpling, mydumper, mysqldump, mariadb-dump or MySQL Shell's util.dumpInstance, or CSV and Parquet files named DATABASE.TABLE.csv. " +
			"Tables are loaded in parallel, by IMPORT INTO where the server can read the files. An interrupted load goes on where it ended when it is started again. " +
			"The password is in $" + passwordVariable + ".",
		Example: "  fastddl load ./dump                            # into the server on 127.0.0.1:4000\n  fastddl load --path ./data --database shop dump.sql.gz   # into a folder, without a server\n" +
			"  fastddl load --dry-run --filter 'shop.*' ./dump",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Source.Paths = args
			return load(cmd, opts, flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.host, "host", "127.0.0.1", "`ADDRESS` of the server")
	f.IntVarP(&flags.port, "port", "P", 4000, "`PORT` of the server")
	f.StringVar(&flags.socket, "socket", "", "Unix socket `FILE` of the server")
	f.StringVarP(&opts.Target.User, "user", "u", opts.Target.User, "`ACCOUNT`")
	f.StringVar(&flags.password, "password", "", "its `PASSWORD` (default: $"+passwordVariable+")")
	f.StringVar(&flags.path, "path", "", "load into the embedded store in this `FOLDER`, which no server has open")
	f.StringVar(&opts.Source.Database, "database", "", "`DATABASE` of files that name none")
	bindLoad(f, &opts, &flags)
	return cmd
}

func newLoadFlags(opts dump.Options) loadFlags {
	return loadFlags{quota: config.ByteSize(opts.TempQuota)}
}

// bindLoad defines the flags that do not say where to load to.
func bindLoad(f *pflag.FlagSet, opts *dump.Options, flags *loadFlags) {
	f.StringSliceVar(&opts.Source.Filter, "filter", nil, "`PATTERNS` of the tables to load, as db.t*; !db.t leaves out")
	f.StringVar((*string)(&opts.Way), "way", string(opts.Way), "`WAY` of the rows: import (IMPORT INTO), insert, or auto, import where it can")
	f.IntVar(&opts.Threads, "threads", opts.Threads, "`TABLES` at a time")
	f.StringVar(&opts.TimeZone, "time-zone", "", "`ZONE` of TIMESTAMP values whose file does not say it (default: the server's)")
	f.BoolVar(&opts.DryRun, "dry-run", false, "show what would be done")
	f.StringVar(&opts.TempDir, "temp-dir", "", "`FOLDER`, which the server reads, for the rows of a single file (default: its secure-file-priv)")
	f.Var(&flags.quota, "temp-quota", "`SIZE` of them at most; a larger table is loaded by INSERT")
	csv := &opts.Source.CSV
	f.StringVar(&flags.header, "header", "auto", "`CHOICE` whether CSV files begin with a line of names: yes, no, auto")
	f.StringVar(&csv.TerminatedBy, "fields-terminated-by", csv.TerminatedBy, "`TEXT` between CSV fields")
	f.StringVar(&csv.EnclosedBy, "fields-enclosed-by", csv.EnclosedBy, "`CHARACTER` around CSV fields; empty for none")
	f.StringVar(&csv.EscapedBy, "fields-escaped-by", csv.EscapedBy, "`CHARACTER` that escapes others in CSV fields; empty for none")
	f.StringVar(&csv.Null, "fields-defined-null-by", csv.Null, "`TEXT` of NULL in CSV files")
	f.StringVar(&csv.LinesTerminatedBy, "lines-terminated-by", "", "`TEXT` behind a CSV row (default: any line end)")
	f.StringVarP(&flags.logLevel, "log-level", "L", "fatal", "lowest `LEVEL` of the log that is shown")
}

// load loads a dump into the server, or the folder, that the flags name.
func load(cmd *cobra.Command, opts dump.Options, flags loadFlags) error {
	opts.Target.Addr = net.JoinHostPort(flags.host, strconv.Itoa(flags.port))
	opts.Target.Password = cmp.Or(flags.password, os.Getenv(passwordVariable))
	return loadInto(cmd, opts, flags)
}

// loadInto loads a dump into its target, or the server of a socket, or into a folder.
func loadInto(cmd *cobra.Command, opts dump.Options, flags loadFlags) (err error) {
	headers := map[string]dump.Header{"auto": dump.HeaderAuto, "yes": dump.HeaderYes, "no": dump.HeaderNo}
	var known bool
	if opts.Source.CSV.Header, known = headers[flags.header]; !known {
		return fmt.Errorf("header %q is none of yes, no, auto", flags.header)
	}
	opts.TempQuota = int64(flags.quota)
	if flags.socket != "" { // by its whole path, which tells it from an address
		if opts.Target.Addr, err = filepath.Abs(flags.socket); err != nil {
			return err
		}
	}
	if err := opts.Validate(); err != nil {
		return err
	}
	log, err := server.InitLogging(config.Log{Level: flags.logLevel, Format: "text"})
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	opts.Out = &watchedWriter{Writer: cmd.OutOrStdout(), gone: cancel}
	opts.Terminal = terminal.Moves(cmd.OutOrStdout())
	if flags.path == "" {
		return dump.Run(ctx, opts)
	}
	for _, name := range []string{"host", "port", "socket"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("path and %s: load into a folder, or into a server", name)
		}
	}
	return loadIntoFolder(ctx, opts, flags.path, log)
}

// newSpoolFolder makes a folder for the temporary files of a load into a store's folder, beside it: a new store wants an empty
// folder. No other load has it, nor had before: whether the store is another process's is known later, when its lock is taken.
func newSpoolFolder(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+spoolSuffix)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, spoolMarker), []byte(path), 0o600); err != nil {
		return "", errs.Combine(err, os.RemoveAll(folder))
	}
	return folder, nil
}

const (
	// spoolSuffix follows the name of the store's folder in those of newSpoolFolder.
	spoolSuffix = ".load-"
	// spoolMarker is a file in each of them, and in no other folder: it has the path of the store's folder.
	spoolMarker = "FASTDDL-LOAD"
)

// oldSpoolFolders are the folders of newSpoolFolder for the store in path, that loads have left which were killed, but for own.
func oldSpoolFolders(path, own string) (folders []string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		folder := filepath.Join(filepath.Dir(path), e.Name())
		if folder == own || !strings.HasPrefix(e.Name(), filepath.Base(path)+spoolSuffix) {
			continue
		}
		switch owner, err := os.ReadFile(filepath.Join(folder, spoolMarker)); {
		case err == nil && string(owner) == path:
			folders = append(folders, folder)
		case err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return nil, err
		}
	}
	return folders, nil
}

// loadIntoFolder starts a server over a store of its own. It reads the folder of the dump, or that of the temporary files.
func loadIntoFolder(ctx context.Context, opts dump.Options, path string, log *server.Log) (err error) {
	cfg := config.Default()
	cfg.Path, cfg.Port, cfg.Status.ReportStatus = path, 0, false
	cfg.Log.SlowThreshold = 0
	cfg.EnsureDefaults()
	readable, err := opts.Source.RowsFolder(ctx)
	if err != nil {
		return err
	}
	if readable == "" { // a single file, whose rows are written to files of each table
		if opts.TempDir != "" {
			readable, err = filepath.Abs(opts.TempDir)
		} else if readable, err = newSpoolFolder(path); err == nil {
			defer func() { err = errs.Combine(err, os.RemoveAll(readable)) }()
		}
		if err != nil {
			return err
		}
	}
	cfg.Security.SecureFilePriv = readable
	if err := cfg.Validate(); err != nil {
		return err
	}
	srv, err := server.Start(ctx, server.Options{Config: cfg, Log: log, Version: version, GitHash: gitHash, WorkerCommand: workerCommand})
	if err != nil {
		return err
	}
	defer func() { err = errs.Combine(err, srv.Shutdown(context.WithoutCancel(ctx))) }()
	// The store is this process's now, so that no other load into it is under way. An import that was interrupted may go on with the files
	// of an earlier load: these stay until a load has ended well, which has waited for it.
	old, err := oldSpoolFolders(path, readable)
	if err != nil {
		return err
	}
	opts.Target.Addr = srv.Addr().String()
	if err := dump.Run(ctx, opts); err != nil {
		return err
	}
	for _, folder := range old {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove the files of an earlier load: %w", err)
		}
	}
	return nil
}
