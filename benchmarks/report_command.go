package main

import (
	"errors"

	"github.com/spf13/cobra"

	"fastddl/benchmarks/report"
	"fastddl/benchmarks/result"
)

func newReportCommand() *cobra.Command {
	var (
		peers []string
		scale string
		out   output
	)
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write tables and plots again, from results",
		Example: "  fastddl-bench report --peers benchmarks/results/peers.json,benchmarks/results/peers-10m.json\n" +
			"  fastddl-bench report --scale benchmarks/results/scale.json",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if len(peers) == 0 && scale == "" {
				return errors.New("neither --peers nor --scale says what to report")
			}
			if len(peers) > 0 {
				if err := reportPeers(peers, &out); err != nil {
					return err
				}
			}
			if scale == "" {
				return nil
			}
			var res result.Scale
			if err := result.Read(scale, &res); err != nil {
				return err
			}
			return out.reportScale(&res)
		},
	}
	f := cmd.Flags()
	out.bindReport(f)
	f.StringSliceVar(&peers, "peers", nil, "`FILES` with results of peers, which are put together")
	f.StringVar(&scale, "scale", "", "`FILE` with results of scale")
	return cmd
}

func reportPeers(files []string, out *output) error {
	all := make([]*result.Peers, len(files))
	for i, file := range files {
		all[i] = &result.Peers{}
		if err := result.Read(file, all[i]); err != nil {
			return err
		}
	}
	merged, err := report.Merge(all...)
	if err != nil {
		return err
	}
	return out.reportPeers(merged)
}
