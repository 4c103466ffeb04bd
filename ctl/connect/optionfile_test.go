package connect_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOptionFilesAreReadByMySQLsRules: https://dev.mysql.com/doc/refman/8.0/en/option-files.html, and what my_default.cc does beyond it.
func TestOptionFilesAreReadByMySQLsRules(t *testing.T) {
	for line, want := range map[string]string{
		"user=a":                     "a",
		"  user \t=\t a b  ":         "a b",
		"user = 'a # b' # comment":   "a # b",
		`user = "a # b"`:             "a # b",
		"user = a # b":               "a",
		"user = a;b":                 "a;b",
		`user = 'it\'s # it'`:        "it's # it",
		`user = a\sb\tc\nd\re\bf\\g`: "a b\tc\nd\re\bf\\g",
		`user = C:\xyz`:              `C:\xyz`,
		`user = a\`:                  `a\`,
		"user = 'a":                  "'a",
		"user = a=b":                 "a=b",
		"user =":                     "",
		"user = '":                   "'",
		"user = ''":                  "",
		"user=a\r":                   "a",
	} {
		e := newEnvironment(t)
		e.write(".my.cnf", "# comment\n ; comment\n\n [ client ]  \n[client ] more\n"+line+"\n")
		require.Equal(t, want, e.must().User, "%q", line)
	}
	for text, want := range map[string]string{
		"user=a":                     "line 1: an option stands before the first group",
		"[client\nuser=a":            "line 1: the name of a group has no ]",
		"[client]\n!incude x":        "!incude is neither !include nor !includedir",
		"!include":                   "!include names no path",
		"[client]\n!include no.cnf":  "no such file",
		"[client]\n!includedir nono": "no such file",
	} {
		e := newEnvironment(t)
		e.write(".my.cnf", text)
		_, err := e.resolve()
		require.ErrorContains(t, err, want, "%q", text)
	}
}

// TestIncludesAreFollowed: a file, and of a folder what ends in .cnf; not round in circles.
func TestIncludesAreFollowed(t *testing.T) {
	e := newEnvironment(t)
	require.NoError(t, os.Mkdir(filepath.Join(e.home, "more"), 0o700))
	e.write("one.cnf", "[client]\nuser=one\nport=1\n")
	e.write("more/two.cnf", "[client]\nport=2\n")
	e.write("more/three.txt", "[client]\nport=3\n")
	e.write(".my.cnf", "[client]\nhost=h\n!include one.cnf\n!includedir "+filepath.Join(e.home, "more")+"\ndatabase=d\n")
	o := e.must()
	require.Equal(t, []any{"h", "one", 2, "d"}, []any{o.Host, o.User, o.Port, o.Database})
	e.write(".my.cnf", "!include .my.cnf\n")
	_, err := e.resolve()
	require.ErrorContains(t, err, "more than 10 deep")
}

// TestFilesThatOthersWriteAreNotRead: another user of the machine must not choose the server that gets the password.
func TestFilesThatOthersWriteAreNotRead(t *testing.T) {
	e := newEnvironment(t)
	file := e.write(".my.cnf", "[client]\nhost=evil\n")
	require.NoError(t, os.Chmod(file, 0o602))
	require.Equal(t, "127.0.0.1", e.must().Host)
	require.Len(t, e.warnings, 1)
	require.Contains(t, e.warnings[0], "is ignored: others may write it")
}

// FuzzOptionFile: any file is read or refused.
func FuzzOptionFile(f *testing.F) {
	f.Add("[client]\nuser = 'a\\'b' # c\n!include x\nssl\n")
	f.Fuzz(func(t *testing.T, text string) {
		e := newEnvironment(t)
		e.write(".my.cnf", text)
		_, _ = e.resolve()
	})
}
