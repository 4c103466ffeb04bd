package config

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDefaultsAreCanonical(t *testing.T) {
	g := NewGlobals()
	for _, v := range SysVars {
		canonical, clamped, err := v.Normalize(v.Default)
		require.NoError(t, err, v.Name)
		require.False(t, clamped, v.Name)
		require.Equal(t, v.Default, canonical, v.Name)
		require.Equal(t, v.Default, g.Get(v.Name))
		require.NotEmpty(t, v.Comment)
		require.True(t, strings.HasPrefix(v.Name, "tidb_") || strings.HasPrefix(v.Name, "fastddl_"), v.Name)
		found, ok := LookupSysVar(strings.ToUpper(v.Name))
		require.True(t, ok)
		require.Equal(t, v.Name, found.Name)
	}
	_, ok := LookupSysVar("tidb_gc_life_time")
	require.False(t, ok, "TiDB's alone")
}

func TestValuesAreNormalized(t *testing.T) {
	for _, tc := range []struct {
		name, value, want string
		clamped           bool
	}{
		{Governor, "off", "OFF", false},
		{Governor, "1", "ON", false},
		{Governor, "perhaps", "", false},
		{DDLEngine, "TiDB", EngineTiDB, false},
		{DDLEngine, "0", EngineFastddl, false},
		{DDLEngine, "gms", "", false},
		{ReorgPriority, "priority_high", PriorityHigh, false},
		{DiskQuota, "64MiB", "67108864", false},
		{DiskQuota, "1", "16777216", true},
		{DiskQuota, "a lot", "", false},
		{MemoryQuota, "99999999TiB", strconv.Itoa(1 << 50), true},
		{MemoryQuota, "99999999999999999999", strconv.Itoa(1 << 50), true},
		{MemoryQuota, "-99999999999999999999", "0", true},
		{MemoryQuota, "1.5GiB", "1610612736", false},
		{BlockerSparedKeys, "99999999999999999999", strconv.Itoa(math.MaxInt64), true},
		{ReorgMaxWriteSpeed, "1GiB", "1073741824", false},
		{ReorgMaxWriteSpeed, "-1", "0", true},
		{ReorgWorkerCount, " 8 ", "8", false},
		{ReorgWorkerCount, "1000", "256", true},
		{ReorgWorkerCount, "8MiB", "", false},
		{CheckpointInterval, "90s", "1m30s", false},
		{CheckpointInterval, "1ms", "1s", true},
		{CheckpointInterval, "10", "", false},
	} {
		v, ok := LookupSysVar(tc.name)
		require.True(t, ok)
		got, clamped, err := v.Normalize(tc.value)
		if tc.want == "" {
			var wrong *ErrWrongValue
			require.ErrorAs(t, err, &wrong, "%s = %q", tc.name, tc.value)
			require.Equal(t, tc.name, wrong.Name)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tc.want, got, "%s = %q", tc.name, tc.value)
		require.Equal(t, tc.clamped, clamped, "%s = %q", tc.name, tc.value)
	}
}

// TestNumbersAreWhole: a fraction is refused, as by TiDB for a variable that is an integer.
func TestNumbersAreWhole(t *testing.T) {
	for _, name := range []string{MemoryQuota, BlockerSparedKeys} {
		for _, value := range []string{"1.5", "1e3", "-0.5"} {
			v, _ := LookupSysVar(name)
			_, _, err := v.Normalize(value)
			var wrong *ErrWrongType
			require.ErrorAs(t, err, &wrong, "%s = %q", name, value)
			require.Equal(t, name, wrong.Name)
		}
	}
}

func TestGlobalsNotifyListeners(t *testing.T) {
	g := NewGlobals()
	var told []string
	cancel := g.OnChange(func(name, value string) { told = append(told, name+"="+value) })
	stored, clamped, err := g.Set("FASTDDL_DDL_CHECKPOINT_INTERVAL", "2s")
	require.NoError(t, err)
	require.False(t, clamped)
	require.Equal(t, "2s", stored)
	require.Equal(t, 2*time.Second, g.Duration(CheckpointInterval))
	_, _, err = g.Set(ReorgWorkerCount, "many")
	require.Error(t, err)
	require.EqualValues(t, 4, g.Int(ReorgWorkerCount))
	_, _, err = g.Set("no_such_variable", "1")
	require.ErrorContains(t, err, "no_such_variable")
	require.True(t, g.Bool(Governor))
	cancel()
	_, _, err = g.Set(Governor, "OFF")
	require.NoError(t, err)
	require.False(t, g.Bool(Governor))
	require.Equal(t, []string{CheckpointInterval + "=2s"}, told)
}
