package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"fastddl/bench"
	"fastddl/config"
	"fastddl/server"
)

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure; figures as JSON on standard output",
		Args:  cobra.NoArgs,
		// A command that does nothing takes any argument for a request for help.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchAddIndexCommand())
	return cmd
}

func newBenchAddIndexCommand() *cobra.Command {
	var (
		opts     = bench.Default()
		logLevel string
		fast     string
	)
	cmd := &cobra.Command{
		Use:     "addindex",
		Short:   "Measure ADD INDEX on a table of its own, and the floor of the machine",
		Example: "  fastddl bench addindex --rows 2000000\n  fastddl bench addindex --columns 'c(20),k' --workers 1 --engine tidb --fast-reorg off",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch fast {
			case "on":
			case "off":
				opts.Transactional = true
			default:
				return fmt.Errorf("fast-reorg %q is neither on nor off", fast)
			}
			log, err := server.InitLogging(config.Log{Level: logLevel, Format: "text"})
			if err != nil {
				return err
			}
			defer log.Close()
			opts.Log, opts.Version = log, version
			opts.Target.Password = os.Getenv(passwordVariable)
			opts.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			result, err := bench.AddIndex(cmd.Context(), opts)
			if err != nil {
				return err
			}
			return result.WriteJSON(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	bindTarget(f, &opts.Target)
	f.IntVar(&opts.Rows, "rows", opts.Rows, "`ROWS` of the table")
	f.StringSliceVar(&opts.Columns, "columns", opts.Columns, "key `PARTS` of the index, such as k or c(20)")
	f.BoolVar(&opts.Unique, "unique", opts.Unique, "add a unique index")
	f.IntVar(&opts.Workers, "workers", opts.Workers, "tidb_ddl_reorg_worker_cnt")
	f.IntVar(&opts.Runs, "runs", opts.Runs, "how often the index is added and dropped")
	f.Var(&opts.MemoryLimit, "memory-limit", "`SIZE` of the memory that the process may use (default: three quarters of the machine's)")
	f.Var(&opts.DiskQuota, "disk-quota", "`SIZE` for tidb_ddl_disk_quota (default: the server's)")
	f.StringVar(&opts.Engine, "engine", opts.Engine, "who builds the index (fastddl_ddl_engine): fastddl or tidb")
	f.StringVar(&fast, "fast-reorg", "on", "how TiDB builds it (tidb_ddl_enable_fast_reorg): on or off")
	f.StringVar(&opts.StorePath, "store-path", opts.StorePath, "`FOLDER` of an embedded store, which stays (default: a temporary one)")
	f.Uint64Var(&opts.Seed, "seed", opts.Seed, "`SEED` of the rows")
	f.StringVarP(&logLevel, "log-level", "L", "fatal", "lowest `LEVEL` of the server's log that is shown")
	return cmd
}
