package scale_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/benchmarks/result"
	"fastddl/benchmarks/scale"
)

// script stands in for the project's binary.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fastddl")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

func TestPointsAndProgress(t *testing.T) {
	var lines []string
	saved := 0
	res, err := scale.Run(t.Context(), scale.Options{
		FastDDL: script(t, `echo "$*" >&2; printf half >&2; sleep 0.1; echo ' line' >&2
echo '{"version": "v1", "index": "k", "runs": [{"seconds": 2, "cpu_seconds": 3, "peak_rss_bytes": 4}], "floor": {"seconds": 1}}'`),
		Rows: []int{1000, 2000}, Workers: []int{1, 4}, WorkersRows: 500, Runs: 1, Extra: []string{"--seed", "7"},
		Progress: func(line string) { lines = append(lines, line) },
		Save:     func(*result.Scale) error { saved++; return nil },
	})
	require.NoError(t, err)
	require.True(t, res.Complete)
	require.Equal(t, "v1", res.Version)
	require.Len(t, res.BySize, 2)
	require.Equal(t, 2000, res.BySize[1].Rows)
	require.Len(t, res.ByWorkers, 2)
	require.Equal(t, result.ScalePoint{
		Rows: 500, Workers: 4, FloorSeconds: 1, Runs: []result.ScaleRun{{Seconds: 2, CPUSeconds: 3, PeakRSSBytes: 4}},
	}, res.ByWorkers[1])
	require.Contains(t, lines, "  bench addindex --rows 500 --workers 4 --runs 1 --seed 7")
	require.Contains(t, lines, "  half line")
	require.Contains(t, lines, "500 rows, 4 workers: 2.00 s, 4000000 ns per row, 2.00 times the floor")
	require.GreaterOrEqual(t, saved, 4, "after each point")
}

// TestFailureKeepsEarlierPoints: Run returns the points before the one that failed, and an incomplete result.
func TestFailureKeepsEarlierPoints(t *testing.T) {
	res, err := scale.Run(t.Context(), scale.Options{
		FastDDL: script(t, `case "$*" in *"--workers 4"*) echo disk full >&2; exit 3;; esac
echo '{"runs": [{"seconds": 2}]}'`),
		Rows: []int{1000}, Workers: []int{1, 4}, WorkersRows: 500,
	})
	require.ErrorContains(t, err, "500 rows, 4 workers")
	require.ErrorContains(t, err, "disk full")
	require.Len(t, res.ByWorkers, 1)
	require.False(t, res.Complete)

	_, err = scale.Run(t.Context(), scale.Options{FastDDL: script(t, `echo '{}'`), Rows: []int{1}, Workers: []int{1}})
	require.ErrorContains(t, err, "no run")
	_, err = scale.Run(t.Context(), scale.Options{FastDDL: "missing", Rows: []int{-1}})
	require.ErrorContains(t, err, "make build")
	require.ErrorContains(t, err, "-1")
}

// TestEndOfContextAsksToStop: the benchmark gets the time to remove its files.
func TestEndOfContextAsksToStop(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "removed")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := scale.Run(ctx, scale.Options{
		FastDDL: script(t, `trap 'echo x > `+mark+`; exit 1' TERM; echo up >&2; while :; do sleep 0.05; done`),
		Rows:    []int{1000}, Workers: []int{1},
		Progress: func(line string) {
			if strings.TrimSpace(line) == "up" {
				cancel()
			}
		},
	})
	require.ErrorIs(t, err, context.Canceled)
	require.FileExists(t, mark)
}

// TestFastDDL runs the project's own benchmark with few rows.
func TestFastDDL(t *testing.T) {
	binary, err := filepath.Abs("../../bin/fastddl")
	require.NoError(t, err)
	if _, err := os.Stat(binary); err != nil {
		t.Skip("bin/fastddl is not built: run make build")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	res, err := scale.Run(ctx, scale.Options{FastDDL: binary, Dir: t.TempDir(), Rows: []int{2000}, Workers: []int{1}, WorkersRows: 1000, Runs: 2})
	require.NoError(t, err)
	for _, p := range append(res.BySize, res.ByWorkers...) {
		require.Len(t, p.Runs, 2)
		require.Positive(t, p.FloorSeconds)
		for _, r := range p.Runs {
			require.Positive(t, r.Seconds)
			require.Positive(t, r.PeakRSSBytes)
		}
	}
}
