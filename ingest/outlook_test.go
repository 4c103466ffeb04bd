package ingest

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/config"
)

// An outlook is what a job gets that joins right after it; looking changes nothing.
func TestOutlookIsWhatTheNextJobGets(t *testing.T) {
	globals := config.NewGlobals()
	set := func(name, value string) {
		_, _, err := globals.Set(name, value)
		require.NoError(t, err)
	}
	set(config.MemoryQuota, "64MiB")
	set(config.DiskQuota, "1GiB")
	set(config.ReorgMaxWriteSpeed, "8MiB")
	r := NewResources(globals, 4)
	check := func(indexes int) *Share {
		o := r.Outlook(ShareOptions{Indexes: indexes}, nil)
		s, err := r.Join(t.Context(), ShareOptions{Indexes: indexes})
		require.NoError(t, err)
		require.Equal(t, s.Workers(), o.Workers)
		require.Equal(t, s.memoryPart, o.MemoryPart)
		require.Equal(t, s.runsPart, o.RunsPart)
		require.Equal(t, s.filesPart, o.FilesPart)
		require.Equal(t, int(s.runFilesPart), o.RunFiles)
		speed, limit := s.WriteSpeed()
		require.Equal(t, speed, o.WriteSpeed)
		require.Equal(t, limit, o.WriteLimit)
		return s
	}
	first := check(1)
	before := [...]int64{int64(first.Workers()), first.memoryPart, first.runsPart}
	o := r.Outlook(ShareOptions{Indexes: 2}, nil)
	require.Equal(t, before, [...]int64{int64(first.Workers()), first.memoryPart, first.runsPart})
	require.Equal(t, 1, o.Jobs)
	require.Zero(t, o.Waiting)
	second := check(2)
	first.Leave()
	second.Leave()
}

// The room on the disk bounds the temp folder as the quota does.
func TestOutlookOnASmallDisk(t *testing.T) {
	r := NewResources(config.NewGlobals(), 2)
	o := r.Outlook(ShareOptions{}, &vfs.DiskUsage{AvailBytes: 3 << 30, TotalBytes: 100 << 30})
	require.EqualValues(t, 2<<30/100*runsRoomPercent, o.RunsPart)
	require.EqualValues(t, 2<<30/100*filesRoomPercent, o.FilesPart)
	require.Empty(t, o.WriteLimit)
}

func TestForecast(t *testing.T) {
	const million = 1_000_000
	ample := Outlook{Workers: 2, Mergers: 3, MemoryPart: 1 << 30, MemoryQuota: 2 << 30, LeastMemory: 4 << 20, RunsPart: 50 << 30, FilesPart: 45 << 30, RunFiles: maxRunFiles}
	one := []Volume{{Entries: million, Bytes: 30 * million, RunBytes: 15 * million, FileBytes: 12 * million}}
	f := ample.Forecast(one, 1)
	require.Zero(t, f.SpilledBytes)
	require.Equal(t, 1, f.Rounds)
	require.InEpsilon(t, 34*million, f.MemoryBytes, 0.1)
	require.InEpsilon(t, 14.5*million, f.TempBytes, 0.05, "the final files, and what those being written have acquired")

	small := ample
	small.MemoryPart = 8 << 20
	f = small.Forecast(one, 1)
	require.EqualValues(t, 8<<20, f.MemoryBytes, "no more than its part")
	require.InEpsilon(t, 13.2*million, f.SpilledBytes, 0.05, "all but what is in memory at the end")
	require.Equal(t, 1, f.Rounds)

	small.RunsPart = 4 << 20
	f = small.Forecast(one, 1)
	require.Equal(t, 4, f.Rounds, "13 MB in runs of 4 MiB at a time")
	require.LessOrEqual(t, f.TempBytes, int64(4<<20+12*million/4+3<<20))

	small.RunsPart, small.RunFiles = 50<<30, 2
	require.Greater(t, small.Forecast(one, 1).Rounds, 2, "runs are files that are open")

	partitioned := one
	partitioned[0].Targets = 16
	halves := ample.Forecast(partitioned, 2)
	require.Less(t, halves.MemoryBytes, ample.Forecast(partitioned, 1).MemoryBytes, "one half after the other")
	require.Equal(t, 1, ample.Forecast([]Volume{{}}, 1).Rounds, "of an empty table")
	require.Zero(t, ample.Forecast([]Volume{{}}, 1).TempBytes)
	short := ample
	short.LeastMemory = 2 << 30
	require.True(t, short.Forecast(one, 1).Short)
}
