package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fastddl/benchmarks/mechanisms"
	"fastddl/benchmarks/report"
	"fastddl/benchmarks/result"
)

const flowSection = "bench-flow"

// quickFlow are the flags of the shortest run that measures all variants: it shows that the benchmark works, and no more.
var quickFlow = map[string]string{
	"rows": "50000", "rounds": "1", "builds": "1", "slot-time": "1s", "capacity-time": "2s", "ramp-up": "500ms", "idle-time": "1s",
}

// setUnchanged sets those of the flags that the command line does not.
func setUnchanged(f *pflag.FlagSet, values map[string]string) error {
	for name, value := range values {
		if f.Changed(name) {
			continue
		}
		if err := f.Set(name, value); err != nil {
			return fmt.Errorf("set --%s: %w", name, err)
		}
	}
	return nil
}

func newFlowCommand() *cobra.Command {
	var (
		opts                mechanisms.Options
		quick               bool
		out, from, document string
	)
	opts.EnsureDefaults()
	cmd := &cobra.Command{
		Use:   "flow",
		Short: "Measure builds beside loads, with each mechanism of flow control left out",
		Example: "  fastddl-bench flow --rounds 10 --max-time 3h\n" +
			"  fastddl-bench flow --from benchmarks/results/flow.json --doc docs/performance.md",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from != "" {
				var res result.Flow
				if err := result.Read(from, &res); err != nil {
					return err
				}
				return printSection(cmd, document, flowSection, report.FlowMarkdown(&res))
			}
			if quick {
				if err := setUnchanged(cmd.Flags(), quickFlow); err != nil {
					return err
				}
			}
			var err error
			if opts.FastDDL, err = filepath.Abs(opts.FastDDL); err != nil {
				return err
			}
			opts.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			opts.Save = func(res *result.Flow) error { return result.Write(out, res) }
			res, err := mechanisms.Run(cmd.Context(), opts)
			if res == nil || len(res.Slots) == 0 {
				return err
			}
			if err != nil {
				document = "" // a document is not replaced by a run that was broken off
			}
			return errors.Join(err, printSection(cmd, document, flowSection, report.FlowMarkdown(res)))
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.FastDDL, "fastddl", "bin/fastddl-benchflow", "the project's `BINARY`, built with the tag benchflow")
	f.StringVar(&opts.Dir, "dir", opts.Dir, "`FOLDER` for temporary files (default: the system's)")
	f.IntVar(&opts.Rows, "rows", opts.Rows, "rows of the table")
	f.StringVar(&opts.Case, "case", opts.Case, "what is added: int, char, composite, unique, eight")
	f.Float64SliceVar(&opts.Shares, "shares", opts.Shares, "loads, as shares of the server's capacity; 0 is a closed loop")
	f.StringSliceVar(&opts.Variants, "variants", opts.Variants, "`NAMES` of what is measured, such as quiet, 'inside all', 'inside again', 'worker share' (default: all)")
	f.IntVar(&opts.Rounds, "rounds", opts.Rounds, "how often each variant is measured")
	f.IntVar(&opts.Builds, "builds", opts.Builds, "how many indexes are added at least beside each load in a round")
	f.DurationVar(&opts.SlotTime, "slot-time", opts.SlotTime, "how long indexes are added at least beside each load in a round")
	f.DurationVar(&opts.MaxSlotTime, "max-slot-time", opts.MaxSlotTime, "no further ADD INDEX begins there after this")
	f.Uint64Var(&opts.Seed, "seed", opts.Seed, "`SEED` of order, rows and loads; 0 draws one, which is printed")
	f.IntVar(&opts.Threads, "threads", opts.Threads, "connections of the load")
	f.DurationVar(&opts.CapacityTime, "capacity-time", opts.CapacityTime, "length of the closed loop that finds the server's capacity")
	f.DurationVar(&opts.RampUp, "ramp-up", opts.RampUp, "how long a load runs before it counts")
	f.DurationVar(&opts.IdleTime, "idle-time", opts.IdleTime, "how long the server may finish its own work before each load")
	f.DurationVar(&opts.MaxTime, "max-time", opts.MaxTime, "no round begins that would end after this")
	f.DurationVar(&opts.StatementTime, "statement-time", opts.StatementTime, "bound of one ADD INDEX")
	f.BoolVar(&quick, "quick", false, "everything once with few rows and short times, to see that it works")
	f.StringVar(&out, "out", "benchmarks/results/flow.json", "`FILE` of the results; written after each measurement")
	f.StringVar(&from, "from", "", "`FILE` with results, which are reported instead of measured")
	f.StringVar(&document, "doc", "", "`DOCUMENT` of which a section is replaced")
	return cmd
}
