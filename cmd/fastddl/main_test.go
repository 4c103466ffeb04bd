package main

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version", "-V"} {
		var stdout, stderr bytes.Buffer
		require.Zero(t, run([]string{arg}, &stdout, &stderr), stderr.String())
		require.Equal(t, "fastddl unknown (unknown)\n", stdout.String())
	}
}

func TestBadInvocationsEndWithOneLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no path":          {[]string{"server"}, "path is not set"},
		"tikv":             {[]string{"server", "--store", "tikv", "--path", "pd:2379"}, "temp-dir is not set"},
		"several problems": {[]string{"server", "-P", "-1", "-L", "loud"}, "port -1 is not a port; log.level"},
		"unknown flag":     {[]string{"server", "--prt", "1"}, "unknown flag: --prt"},
		"no such file":     {[]string{"server", "--config", "/no/such.toml"}, "/no/such.toml"},
		"unknown command":  {[]string{"serve"}, "fastddl: unknown command \"serve\" for \"fastddl\"; Did you mean this?; server\n"},
		"argument":         {[]string{"server", "now"}, "unknown command"},
		"no unit":          {[]string{"server", "--path", "x", "--shutdown-timeout", "10"}, "is not a duration"},
		"too much memory":  {[]string{"server", "--path", "x", "--memory-limit", "900PiB"}, "more than the"},
		"no such engine":   {[]string{"bench", "addindex", "--engine", "x"}, `engine "x" is neither`},
		"demo too small":   {[]string{"demo", "--rows", "1"}, "at least 1000"},
		"demo of nothing": {
			[]string{"demo", "--rows", "0", "--threads", "0", "--phase", "0s"},
			"rows 0: at least 1000 are needed; threads 0: at least one is needed; phase 0s: ",
		},
		"load of nothing":       {[]string{"load"}, "requires at least 1 arg(s)"},
		"load of no file":       {[]string{"load", "/no/such.sql"}, "/no/such.sql: no such file or directory"},
		"load in no way":        {[]string{"load", "--way", "x", "--threads", "0", "--temp-quota", "1MiB", "a"}, `way "x" is none of auto, import, insert; threads 0 is not between 1 and 64; temp-quota 1048576`},
		"header":                {[]string{"load", "--header", "x", "a"}, `header "x" is none of yes, no, auto`},
		"load into two targets": {[]string{"load", "--path", "x", "--host", "y", "a"}, "path and host: load into a folder, or into a server"},
		"unknown benchmark":     {[]string{"bench", "foo"}, `unknown command "foo" for "fastddl bench"`},
		"benchmark of nothing": {
			[]string{"bench", "addindex", "--rows", "0", "--runs", "0", "--workers", "0", "--columns", ""},
			"rows 0: at least one is needed; columns: at least one is needed; workers 0 is not between 1 and 256; runs 0: at least one is needed",
		},
		"empty key part":    {[]string{"bench", "addindex", "--columns", "k,,c"}, `columns: "k,,c" has an empty part`},
		"too many workers":  {[]string{"bench", "addindex", "--workers", "99999"}, "workers 99999 is not between 1 and 256"},
		"too small a quota": {[]string{"bench", "addindex", "--disk-quota", "1KB"}, "disk-quota 1KiB is not between 16MiB and 1PiB"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, 1, run(tc.args, &stdout, &stderr))
			require.Contains(t, stderr.String(), tc.want)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
			require.Empty(t, stdout.String())
		})
	}
}

// TestHelpShowsADefaultOnce: in words, or as a value.
func TestHelpShowsADefaultOnce(t *testing.T) {
	for _, args := range [][]string{{"server"}, {"load"}, {"bench", "addindex"}, {"demo"}, {"ctl"}, {"ctl", "run"}, {"ctl", "load"}, {"ctl", "alter"}} {
		var stdout, stderr bytes.Buffer
		require.Zero(t, run(append(args, "--help"), &stdout, &stderr))
		for line := range strings.Lines(stdout.String()) {
			require.LessOrEqual(t, strings.Count(line, "(default"), 1, line)
		}
	}
}

// TestRepeatedSignalCountsOnce: GNU timeout signals the process and then its group.
func TestRepeatedSignalCountsOnce(t *testing.T) {
	signals, over, released := make(chan os.Signal), make(chan time.Time), make(chan struct{})
	ctx, stop := contextOfSignals(signals, func() <-chan time.Time { return over }, func() { close(released) })
	defer stop()
	require.NoError(t, ctx.Err())
	signals <- syscall.SIGTERM
	<-ctx.Done()
	for range 3 {
		signals <- syscall.SIGTERM // it is received, and does nothing
	}
	select {
	case <-released:
		require.Fail(t, "the next one would end the process")
	default:
	}
	over <- time.Time{}
	<-released
}

// TestSignalsAreReleasedAtTheEnd: a command that ends by itself gives the signals back.
func TestSignalsAreReleasedAtTheEnd(t *testing.T) {
	released := make(chan struct{})
	ctx, stop := contextOfSignals(nil, nil, func() { close(released) })
	stop()
	<-ctx.Done()
	<-released
}
