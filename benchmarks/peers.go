package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"fastddl/benchmarks/result"
	"fastddl/benchmarks/runner"
)

const defaultBinary = "bin/fastddl"

func newPeersCommand() *cobra.Command {
	var (
		opts runner.Options
		out  output
	)
	opts.EnsureDefaults()
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Measure ADD INDEX of all systems, alone and under load",
		Example: "  fastddl-bench peers\n" +
			"  fastddl-bench peers --rows 10000000 --cases int,char,composite,unique,eight --no-load --max-time 2h --out benchmarks/results/peers-10m.json --doc ''",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opts.FastDDL, err = filepath.Abs(opts.FastDDL); err != nil {
				return err
			}
			opts.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			opts.Save = func(res *result.Peers) error { return result.Write(out.json, res) }
			res, err := runner.Run(cmd.Context(), opts)
			if res == nil || len(res.Runs) == 0 || cmd.Context().Err() != nil {
				return err // a document is not replaced by a run that was broken off
			}
			return errors.Join(err, out.reportPeers(res))
		},
	}
	f := cmd.Flags()
	out.bind(f, "benchmarks/results/peers.json")
	f.StringVar(&opts.FastDDL, "fastddl", defaultBinary, "the project's `BINARY`")
	f.StringVar(&opts.Dir, "dir", opts.Dir, "`FOLDER` for temporary files (default: the system's)")
	f.IntSliceVar(&opts.Rows, "rows", opts.Rows, "`SIZES` of the table; load and the slow baseline run on the smallest")
	f.StringSliceVar(&opts.Cases, "cases", opts.Cases, "what is added alone: int, char, composite, unique, eight")
	f.StringSliceVar(&opts.LoadCases, "load-cases", opts.LoadCases, "what is added under load")
	f.Float64SliceVar(&opts.Shares, "shares", opts.Shares, "loads, as shares of the server's capacity")
	f.BoolVar(&opts.NoLoad, "no-load", opts.NoLoad, "measure without load only")
	f.StringSliceVar(&opts.Systems, "systems", opts.Systems, "systems to measure (default: all)")
	f.IntVar(&opts.Rounds, "rounds", opts.Rounds, "how often each figure is measured")
	f.IntVar(&opts.SlowRounds, "slow-rounds", opts.SlowRounds, "the same, for pt-osc and TiDB's own builds")
	f.IntVar(&opts.Threads, "threads", opts.Threads, "connections of the load")
	f.Uint64Var(&opts.Seed, "seed", opts.Seed, "`SEED` of rows and load")
	f.DurationVar(&opts.CapacityTime, "capacity-time", opts.CapacityTime, "length of the closed loop that finds a server's capacity")
	f.DurationVar(&opts.RampUp, "ramp-up", opts.RampUp, "how long a load runs before it counts")
	f.DurationVar(&opts.Before, "before", opts.Before, "how long a load runs before the first ADD INDEX")
	f.DurationVar(&opts.During, "during", opts.During, "ADD INDEX is repeated under load until this has passed")
	f.IntVar(&opts.MaxRepeats, "repeats", opts.MaxRepeats, "but no more often than this")
	f.DurationVar(&opts.MaxTime, "max-time", opts.MaxTime, "no measurement begins after this")
	f.DurationVar(&opts.StatementTime, "statement-time", opts.StatementTime, "bound of one ADD INDEX")
	return cmd
}
