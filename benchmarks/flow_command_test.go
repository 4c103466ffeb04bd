package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/benchmarks/result"
	"fastddl/sbtest"
)

// TestFlowReportsSavedResults: what a run has saved is reported again without measuring.
func TestFlowReportsSavedResults(t *testing.T) {
	dir := t.TempDir()
	saved, document := filepath.Join(dir, "flow.json"), filepath.Join(dir, "performance.md")
	require.NoError(t, result.Write(saved, &result.Flow{
		Setup:    result.FlowSetup{Rows: 1000, Case: "int", Shares: []float64{0.4}},
		Variants: []result.FlowVariant{{Name: "quiet", Kind: result.FlowQuiet}},
		Slots:    []result.FlowSlot{{Variant: "quiet", Round: 1, Share: 0.4, During: sbtest.LatencySummary{P99: 12.3}}},
	}))
	require.NoError(t, os.WriteFile(document, []byte("# Performance\n"), 0o600))
	cmd := newFlowCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--from", saved, "--doc", document})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Contains(t, out.String(), "| no builds | 0.0 | 12.3 |")
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	require.Contains(t, string(text), "# Performance\n\n<!-- bench-flow:begin")
	require.Contains(t, string(text), "| no builds | 0.0 | 12.3 |")
}

// TestQuickKeepsFlagsThatAreSet: --quick changes what the command line does not say.
func TestQuickKeepsFlagsThatAreSet(t *testing.T) {
	f := newFlowCommand().Flags()
	require.NoError(t, f.Parse([]string{"--quick", "--rows", "777"}))
	require.NoError(t, setUnchanged(f, quickFlow))
	for name, want := range map[string]string{"rows": "777", "rounds": "1", "slot-time": "1s", "statement-time": "5m0s"} {
		require.Equal(t, want, f.Lookup(name).Value.String(), name)
	}
}

// TestFlowNeedsABinaryThatLeavesMechanismsOut: an ordinary one would measure the same ten times.
func TestFlowNeedsABinaryThatLeavesMechanismsOut(t *testing.T) {
	own, err := os.Executable()
	require.NoError(t, err)
	cmd := newFlowCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	for binary, problem := range map[string]string{own: "not built with the tag benchflow", filepath.Join(t.TempDir(), "none"): "run make bench-flow"} {
		cmd.SetArgs([]string{"--fastddl", binary})
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), problem)
	}
}
