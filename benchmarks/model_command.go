package main

import (
	"bytes"
	"io"

	"github.com/spf13/cobra"

	"fastddl/benchmarks/model"
	"fastddl/benchmarks/report"
)

// modelSection is the section of docs/scale.md.
const modelSection = "bench-model"

func newModelCommand() *cobra.Command {
	var (
		document            string
		rows, nodes, stores float64
		workers, pair       float64
		full                bool
	)
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Print what index builds cost on clusters larger than this machine, by a model",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rows > 0 {
				b, c := model.GridBuild(rows), model.Production(rows, nodes)
				b.Sampled = !full
				c.Workers = workers
				if stores > 0 {
					c.Stores = stores
				}
				if pair > 0 {
					b.Indexes[0].Pair = pair
				}
				return model.WriteBuild(cmd.OutOrStdout(), b, c)
			}
			var text bytes.Buffer
			if err := model.WriteTables(&text); err != nil {
				return err
			}
			if document != "" {
				return report.WriteSection(document, modelSection, text.String())
			}
			_, err := io.Copy(cmd.OutOrStdout(), &text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&document, "doc", "", "`DOCUMENT` of which the section is replaced instead of printing")
	f.Float64Var(&rows, "rows", 0, "one build of so many `ROWS`, by all designs, instead of the tables")
	f.Float64Var(&nodes, "nodes", 4, "`NODES` that build it")
	f.Float64Var(&workers, "workers", 0, "`WORKERS` of a node (default 4)")
	f.Float64Var(&stores, "stores", 0, "`STORES` (default: for the rows)")
	f.Float64Var(&pair, "pair", 0, "`BYTES` of an entry without the index prefix (default 19)")
	f.BoolVar(&full, "full", false, "read all rows and entries a second time")
	return cmd
}
