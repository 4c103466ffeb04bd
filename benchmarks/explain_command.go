package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"fastddl/benchmarks/explain"
)

const explainSection = "bench-explain"

func newExplainCommand() *cobra.Command {
	var (
		opts     explain.Options
		document string
	)
	opts.EnsureDefaults()
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Compare what EXPLAIN says of index builds with what they take",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opts.FastDDL, err = filepath.Abs(opts.FastDDL); err != nil {
				return err
			}
			opts.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			found, err := explain.Run(cmd.Context(), opts)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("Tables of %d rows; what happened, and what EXPLAIN said to that.\n\n%s", opts.Rows, explain.Markdown(found))
			return printSection(cmd, document, explainSection, text)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.FastDDL, "fastddl", defaultBinary, "the project's `BINARY`")
	f.StringVar(&opts.DSN, "dsn", "", "a server that runs, as `root@tcp(host:port)/`, instead of one of its own")
	f.StringVar(&opts.Dir, "dir", opts.Dir, "`FOLDER` for temporary files (default: the system's)")
	f.IntVar(&opts.Rows, "rows", opts.Rows, "rows of each table")
	f.IntVar(&opts.Rounds, "rounds", opts.Rounds, "how often each build is compared, after a first round that is not counted")
	f.StringArrayVar(&opts.Only, "only", nil, "`NAME` of a build; may be repeated (default: all)")
	f.StringVar(&document, "doc", "", "`DOCUMENT` of which a section is replaced")
	return cmd
}
