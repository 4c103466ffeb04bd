package server

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	pclog "github.com/pingcap/log"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fastddl/config"
)

// restoreLog gives the log of the process back to the other tests.
func restoreLog(t *testing.T) {
	t.Cleanup(func() { pclog.ReplaceGlobals(testLog.Logger, testLog.props) })
}

func TestLogFile(t *testing.T) {
	restoreLog(t)
	file := filepath.Join(t.TempDir(), "fastddl.log")
	log, err := InitLogging(config.Log{Level: "warn", Format: "json", File: config.LogFile{Filename: file}})
	require.NoError(t, err)
	log.Info("not this")
	log.Warn("but this", zap.Int("n", 3))
	pclog.Error("and TiDB's")
	log.Close()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var line, second map[string]any
	lines := json.NewDecoder(f)
	require.NoError(t, lines.Decode(&line))
	require.NoError(t, lines.Decode(&second))
	require.False(t, lines.More())
	require.Equal(t, "but this", line["message"])
	require.Equal(t, 3.0, line["n"])
	require.Equal(t, "and TiDB's", second["message"])
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077)
}

func TestLogFileThatCannotBeWritten(t *testing.T) {
	_, err := InitLogging(config.Log{Level: "info", File: config.LogFile{Filename: filepath.Join(t.TempDir(), "no", "dir.log")}})
	require.ErrorContains(t, err, "open log file")
}

func TestSlowLogLeavesTheLogAlone(t *testing.T) {
	restoreLog(t)
	dir := t.TempDir()
	cfg := config.Log{Level: "info", Format: "text", File: config.LogFile{Filename: filepath.Join(dir, "fastddl.log")}, SlowQueryFile: filepath.Join(dir, "slow.log")}
	log, err := InitLogging(cfg)
	require.NoError(t, err)
	require.NoError(t, log.openSlowLog(cfg))
	pclog.Info("a line")
	pclog.SetLevel(zap.ErrorLevel)
	pclog.Info("no line")
	log.Close()
	text, err := os.ReadFile(cfg.File.Filename)
	require.NoError(t, err)
	require.Contains(t, string(text), `["a line"]`)
	require.NotContains(t, string(text), "no line")

	cfg.SlowQueryFile = dir
	require.ErrorContains(t, log.openSlowLog(cfg), "log.slow-query-file")
}
