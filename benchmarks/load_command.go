package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"fastddl/benchmarks/loads"
)

const loadSection = "bench-load"

func newLoadCommand() *cobra.Command {
	var (
		opts     loads.Options
		document string
	)
	opts.EnsureDefaults()
	cmd := &cobra.Command{
		Use:     "load",
		Short:   "Load a CSV file into a table with two indexes, on all systems",
		Example: "  fastddl-bench load --rows 5000000 --systems fastddl --server-flag=--memory-limit=1GiB",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opts.FastDDL, err = filepath.Abs(opts.FastDDL); err != nil {
				return err
			}
			opts.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			found, size, err := loads.Run(cmd.Context(), opts)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("A CSV file of %d rows, %d MB, into sysbench's table with indexes on `k` and `c`; medians of %d rounds that alternate.\n\n%s",
				opts.Rows, size/1_000_000, opts.Rounds, loads.Markdown(found))
			return printSection(cmd, document, loadSection, text)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.FastDDL, "fastddl", defaultBinary, "the project's `BINARY`")
	f.StringArrayVar(&opts.ServerFlags, "server-flag", nil, "further `FLAG` of its server; may be repeated")
	f.StringVar(&opts.Dir, "dir", opts.Dir, "`FOLDER` for the file and the stores (default: the system's)")
	f.IntVar(&opts.Rows, "rows", opts.Rows, "rows of the file")
	f.IntVar(&opts.Rounds, "rounds", opts.Rounds, "how often each system loads it")
	f.StringSliceVar(&opts.Systems, "systems", nil, "fastddl, postgres, mariadb (default: all)")
	f.Uint64Var(&opts.Seed, "seed", opts.Seed, "`SEED` of the rows")
	f.DurationVar(&opts.LoadTime, "load-time", opts.LoadTime, "bound of one load")
	f.StringVar(&document, "doc", "", "`DOCUMENT` of which a section is replaced")
	return cmd
}
