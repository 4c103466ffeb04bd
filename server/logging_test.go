package server

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	pclog "github.com/pingcap/log"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/config"
)

func TestLogFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fastddl.log")
	log, closeLog, err := NewLogger(config.Log{Level: "warn", Format: "json", File: config.LogFile{Filename: file}})
	require.NoError(t, err)
	log.Info("not this")
	log.Warn("but this", zap.Int("n", 3))
	closeLog()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var line map[string]any
	require.NoError(t, json.Unmarshal(text, &line), "exactly one line: %s", text)
	require.Equal(t, "but this", line["msg"])
	require.Equal(t, 3.0, line["n"])
}

func TestLogFileThatCannotBeWritten(t *testing.T) {
	_, _, err := NewLogger(config.Log{Level: "info", File: config.LogFile{Filename: filepath.Join(t.TempDir(), "no", "dir.log")}})
	require.ErrorContains(t, err, "open log file")
}

func TestLibraryLogsAreLedIntoOurs(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	RedirectLibraryLogs(zap.New(core))
	t.Cleanup(func() { RedirectLibraryLogs(zap.NewNop()) })

	logrus.WithField("query", "selec").Error("syntax error")
	logrus.Info("NewConnection")
	logrus.Error("mysql_server caught panic: boom")
	pclog.Info("from TiDB")

	var got []string
	for _, e := range logs.TakeAll() {
		got = append(got, e.Level.String()+" "+e.LoggerName+" "+e.Message)
	}
	require.Equal(t, []string{
		"info engine syntax error",
		"debug engine NewConnection",
		"error engine mysql_server caught panic: boom",
		"info tidb from TiDB",
	}, got)
}
