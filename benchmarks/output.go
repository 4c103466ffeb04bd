package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fastddl/benchmarks/report"
	"fastddl/benchmarks/result"
)

// printSection prints what was measured, and replaces the section of a document with it; no document is "".
func printSection(cmd *cobra.Command, document, section, text string) error {
	fmt.Fprint(cmd.OutOrStdout(), text)
	if document == "" {
		return nil
	}
	return report.WriteSection(document, section, text)
}

// output is where results and reports go.
type output struct {
	json, document, plots string
}

func (o *output) bind(f *pflag.FlagSet, json string) {
	f.StringVar(&o.json, "out", json, "`FILE` of the results; written after each measurement")
	o.bindReport(f)
}

func (o *output) bindReport(f *pflag.FlagSet) {
	f.StringVar(&o.document, "doc", "docs/performance-peers.md", "`DOCUMENT` of which a section is replaced; empty: none")
	f.StringVar(&o.plots, "plots", "docs/performance", "`FOLDER` of the plots; empty: none, and no document")
}

// The sections are named as the make targets.
const (
	peersSection = "bench-peers"
	scaleSection = "bench-scale"
)

func (o *output) reportPeers(res *result.Peers) error {
	return o.report(peersSection, func(folder string) error { return report.WritePeerPlots(res, folder) },
		func(link string) string { return report.Markdown(res, link) })
}

func (o *output) reportScale(res *result.Scale) error {
	return o.report(scaleSection, func(folder string) error { return report.WriteScalePlots(res, folder) },
		func(link string) string { return report.ScaleMarkdown(res, link) })
}

// report writes plots first: a document must not link to missing files.
func (o *output) report(section string, plots func(folder string) error, text func(link string) string) error {
	if o.plots == "" {
		return nil
	}
	if err := plots(o.plots); err != nil {
		return err
	}
	if o.document == "" {
		return nil
	}
	link, err := filepath.Rel(filepath.Dir(o.document), o.plots)
	if err != nil {
		return err
	}
	return report.WriteSection(o.document, section, text(filepath.ToSlash(link)))
}
