package server

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	pclog "github.com/pingcap/log"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util/logutil"
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

// TestLogAmongFilesWaitsForItsFolder: lines of before the folder may have a file are in it later, and an empty folder stays empty for its
// store. If there will be none, what is serious is shown.
func TestLogAmongFilesWaitsForItsFolder(t *testing.T) {
	restoreLog(t)
	dir := filepath.Join(t.TempDir(), "data")
	cfg := config.Log{Level: "info", Format: "text", File: config.LogFile{Filename: filepath.Join(dir, "fastddl.log")}}
	log, err := InitLoggingAmongFiles(cfg)
	require.NoError(t, err)
	log.Info("before")
	require.NoDirExists(t, dir)
	require.NoError(t, os.Mkdir(dir, 0o700))
	log.file.release()
	log.Info("behind")
	log.file.release() // once more
	log.Close()
	text, err := os.ReadFile(cfg.File.Filename)
	require.NoError(t, err)
	require.Regexp(t, `(?s)\["?before"?\].*\["?behind"?\]`, string(text))
}

// TestLogAmongFilesThatCannotBeWritten: the server starts without it, what is serious is shown, and the log begins when it can.
func TestLogAmongFilesThatCannotBeWritten(t *testing.T) {
	restoreLog(t)
	cfg := config.Log{Level: "info", Format: "text", File: config.LogFile{Filename: filepath.Join(t.TempDir(), "no", "fastddl.log")}}
	log, err := InitLoggingAmongFiles(cfg)
	require.NoError(t, err)
	var shown bytes.Buffer
	log.file.held.instead = &shown
	log.Info("not serious")
	log.Warn("important")
	log.file.release() // there is no folder: rotation makes it
	require.Contains(t, shown.String(), "warning: the log cannot be written: open log file: ")
	require.Contains(t, shown.String(), "important")
	require.NotContains(t, shown.String(), "not serious")
	log.Info("the disk has room")
	log.Close()
	text, err := os.ReadFile(cfg.File.Filename)
	require.NoError(t, err)
	require.Contains(t, string(text), "the disk has room")
}

func TestHeldLinesThatGetNoFile(t *testing.T) {
	var instead bytes.Buffer
	h := newHeldLines(&instead)
	info, warning := []byte("[2026/11/28 01:00:00.000 +00:00] [INFO] [a.go:1] [\"] [ERROR]\"]\n"), []byte("[2026/11/28 01:00:00.000 +00:00] [WARN] [a.go:1] [b]\n")
	for range maxHeldBytes/len(info) + 1 {
		n, err := h.Write(info)
		require.NoError(t, err)
		require.Equal(t, len(info), n)
	}
	require.LessOrEqual(t, len(h.lines), maxHeldBytes)
	require.Empty(t, instead.String())
	_, err := h.Write(warning)
	require.NoError(t, err)
	require.Equal(t, string(warning), instead.String(), "what is held is full")
	h.lines = append(append([]byte{}, info...), warning...)
	require.NoError(t, h.giveUp())
	require.NoError(t, h.giveUp())
	require.Equal(t, string(warning)+string(warning), instead.String())
}

func TestStatementLogsLeaveTheLogAlone(t *testing.T) {
	restoreLog(t)
	dir := t.TempDir()
	cfg := config.Log{Level: "info", Format: "text", File: config.LogFile{Filename: filepath.Join(dir, "fastddl.log")}, SlowQueryFile: filepath.Join(dir, "slow.log")}
	general := filepath.Join(dir, "general.log")
	log, err := InitLogging(cfg)
	require.NoError(t, err)
	require.NoError(t, log.openStatementLogs(cfg, general))
	pclog.Info("a line")
	pclog.SetLevel(zap.ErrorLevel)
	pclog.Info("no line")
	log.Close()
	text, err := os.ReadFile(cfg.File.Filename)
	require.NoError(t, err)
	require.Contains(t, string(text), `["a line"]`)
	require.NotContains(t, string(text), "no line")

	cfg.SlowQueryFile = dir
	require.ErrorContains(t, log.openStatementLogs(cfg, ""), "log.slow-query-file")
}

func TestGeneralLogHasItsFile(t *testing.T) {
	restoreLog(t)
	dir := t.TempDir()
	cfg := config.Log{Level: "info", Format: "text", File: config.LogFile{Filename: filepath.Join(dir, "fastddl.log")}}
	log, err := InitLogging(cfg)
	require.NoError(t, err)
	defer log.Close()
	for name, in := range map[string]string{"": "fastddl.log", filepath.Join(dir, "general.log"): "general.log"} {
		require.NoError(t, log.openStatementLogs(cfg, name))
		logutil.GeneralLogger.Info("GENERAL_LOG of " + in)
		text, err := os.ReadFile(filepath.Join(dir, in))
		require.NoError(t, err)
		require.Contains(t, string(text), "GENERAL_LOG of "+in)
	}
}

// The variable changes the log that there is, and opens no other one.
func TestLogFileMaxDays(t *testing.T) {
	restoreLog(t)
	file := filepath.Join(t.TempDir(), "fastddl.log")
	log, err := InitLogging(config.Log{Level: "info", Format: "text", File: config.LogFile{Filename: file, MaxDays: 1}})
	require.NoError(t, err)
	defer log.Close()
	before := variable.GetSysVar(variable.TiDBLogFileMaxDays)
	undo := log.followMaxDays()
	set := variable.GetSysVar(variable.TiDBLogFileMaxDays)
	log.Info("first")
	require.NoError(t, set.SetGlobal(t.Context(), nil, "7"))
	pclog.Info("second")
	require.Equal(t, 7, log.file.out.MaxAge)
	days, err := set.GetGlobal(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "7", days)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "first")
	require.Contains(t, string(text), "second")
	require.NoError(t, undo())
	require.Same(t, before, variable.GetSysVar(variable.TiDBLogFileMaxDays))

	var toStderr *rotatingFile
	toStderr.setMaxDays(7)
	toStderr.close()
}
