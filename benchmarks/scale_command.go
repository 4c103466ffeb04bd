package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"fastddl/benchmarks/result"
	"fastddl/benchmarks/scale"
)

func newScaleCommand() *cobra.Command {
	var (
		opts scale.Options
		out  output
	)
	opts.EnsureDefaults()
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure the project's own ADD INDEX by rows and by workers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opts.FastDDL, err = filepath.Abs(opts.FastDDL); err != nil {
				return err
			}
			opts.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			opts.Save = func(res *result.Scale) error { return result.Write(out.json, res) }
			res, err := scale.Run(cmd.Context(), opts)
			if res == nil || !res.Complete {
				return err
			}
			return errors.Join(err, out.reportScale(res))
		},
	}
	f := cmd.Flags()
	out.bind(f, "benchmarks/results/scale.json")
	f.StringVar(&opts.FastDDL, "fastddl", defaultBinary, "the project's `BINARY`")
	f.StringVar(&opts.Dir, "dir", opts.Dir, "`FOLDER` for temporary files (default: the system's)")
	f.IntSliceVar(&opts.Rows, "rows", opts.Rows, "`SIZES` of the table, at one worker per core")
	f.IntSliceVar(&opts.Workers, "workers", opts.Workers, "numbers of workers")
	f.IntVar(&opts.WorkersRows, "workers-rows", opts.WorkersRows, "size of the table for those")
	f.IntVar(&opts.Runs, "runs", opts.Runs, "how often each point is measured")
	f.StringSliceVar(&opts.Extra, "addindex-flags", opts.Extra, "further flags of fastddl bench addindex")
	return cmd
}
