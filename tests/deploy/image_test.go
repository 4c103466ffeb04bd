package deploy

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instructions are those of deploy/docker/Dockerfile, without comments, each in one line.
func instructions(t *testing.T) (all []string) {
	t.Helper()
	var current strings.Builder
	for line := range strings.Lines(readFile(t, deployed("docker", "Dockerfile"))) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		more := strings.HasSuffix(line, `\`)
		current.WriteString(strings.TrimSuffix(line, `\`))
		if !more {
			all = append(all, current.String())
			current.Reset()
		}
	}
	require.Empty(t, current.String(), "the last instruction goes on")
	return all
}

// healthCheck is the command of the instruction HEALTHCHECK, for another port.
func healthCheck(t *testing.T, port string) (command []string) {
	t.Helper()
	for _, i := range instructions(t) {
		if !strings.HasPrefix(i, "HEALTHCHECK ") {
			continue
		}
		_, list, ok := strings.Cut(i, " CMD ")
		require.True(t, ok, i)
		require.Equal(t, 1, strings.Count(list, "/10080 "))
		require.NoError(t, json.Unmarshal([]byte(strings.Replace(list, "/10080 ", "/"+port+" ", 1)), &command))
	}
	require.NotEmpty(t, command)
	return command
}

func commandOf(t *testing.T, command []string) *exec.Cmd {
	return exec.CommandContext(t.Context(), command[0], command[1:]...)
}

var goVersion = regexp.MustCompile(`(?m)^go (\S+)$`)

// TestImageIsBuiltAsTheMakefileDoes: by the Go of go.mod, from files that a checkout has, for a user that is not root.
func TestImageIsBuiltAsTheMakefileDoes(t *testing.T) {
	root := filepath.Join("..", "..")
	all := instructions(t)
	version := goVersion.FindStringSubmatch(readFile(t, filepath.Join(root, "go.mod")))
	require.NotNil(t, version)
	require.Equal(t, "FROM golang:"+version[1]+"-bookworm AS build", all[0])
	text := strings.Join(all, "\n")
	for _, variable := range []string{"main.version", "main.gitHash"} {
		require.Contains(t, readFile(t, filepath.Join(root, "Makefile")), "-X "+variable+"=")
		require.Contains(t, text, "-X "+variable+"=")
	}
	require.Regexp(t, `\nRUN go build .* \./cmd/fastddl\n`, text)
	last := all[len(all)-1]
	require.Equal(t, `CMD ["server", "--path", "/var/lib/fastddl", "--host", "0.0.0.0"]`, last)
	_, final, _ := strings.Cut(text, "\nFROM ")
	require.Regexp(t, `\nUSER [1-9][0-9]*:[1-9][0-9]*\n`, final, "a number: Kubernetes knows then that it is not root")
	for _, ignored := range strings.Fields(readFile(t, deployed("docker", "Dockerfile.dockerignore"))) {
		for _, needed := range []string{"go.mod", "go.sum", "cmd", "server", "sql", "internal"} {
			require.NotEqual(t, needed, ignored)
		}
	}
}

// TestUnitIsValid asks systemd about the unit, with our binary in the place of the installed one.
func TestUnitIsValid(t *testing.T) {
	analyze := installed(t, "systemd-analyze")
	unit := readFile(t, deployed("systemd", "fastddl.service"))
	require.Equal(t, 1, strings.Count(unit, "/usr/local/bin/fastddl"))
	path, err := filepath.Abs(binary)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "fastddl.service")
	writeFile(t, file, strings.Replace(unit, "/usr/local/bin/fastddl", path, 1))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "fastddl.service", "systemd has something to say about the unit")
}
