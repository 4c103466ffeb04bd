package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		"unknown command":  {[]string{"serve"}, "unknown command"},
		"argument":         {[]string{"server", "now"}, "unknown command"},
		"no unit":          {[]string{"server", "--path", "x", "--shutdown-timeout", "10"}, "is not a duration"},
		"too much memory":  {[]string{"server", "--path", "x", "--memory-limit", "900PiB"}, "more than the"},
		"no such engine":   {[]string{"bench", "addindex", "--engine", "x"}, `engine "x" is neither`},
		"demo too small":   {[]string{"demo", "--rows", "1"}, "at least 1000"},
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

func TestVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"version"}, &stdout, &stderr))
	require.Equal(t, "fastddl unknown (unknown)\n", stdout.String())
}
