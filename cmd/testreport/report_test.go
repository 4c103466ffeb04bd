package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const events = `{"Action":"run","Package":"fastddl/sql","Test":"TestA"}
{"Action":"output","Package":"fastddl/sql","Test":"TestA","Output":"    a_test.go:7: FASTDDL_SEED=42\n"}
{"Action":"output","Package":"fastddl/sql","Test":"TestA/x y","Output":"    a_test.go:9: \n"}
{"Action":"output","Package":"fastddl/sql","Test":"TestA/x y","Output":"        \tError:      \twrong\n"}
{"Action":"output","Package":"fastddl/sql","Test":"TestA/x y","Output":"        [2026/11/27 02:53:20.000 +00:00] [INFO] [a.go:1]\n"}
{"Action":"fail","Package":"fastddl/sql","Test":"TestA/x_y"}
{"Action":"output","Package":"fastddl/sql","Test":"TestA/x_y","Output":"        \tError:      \twrong\n"}
{"Action":"fail","Package":"fastddl/sql","Test":"TestA"}
{"Action":"fail","Package":"fastddl/sql"}
{"Action":"output","Package":"fastddl/tests/cluster","Test":"TestRandom/seed=7","Output":"  FASTDDL_SEED=7\n"}
{"Action":"output","Package":"fastddl/tests/cluster","Test":"TestRandom/seed=7","Output":"    bed.go:216:         \tError:      \tReceived unexpected error:\n"}
{"Action":"output","Package":"fastddl/tests/cluster","Test":"TestRandom/seed=7","Output":"    bed.go:216:         \t            \tkilled: no row\n"}
{"Action":"output","Package":"fastddl/tests/cluster","Test":"TestRandom/seed=7","Output":"    bed.go:216:         \tTest:       \tTestRandom\n"}
{"Action":"output","Package":"fastddl/tests/cluster","Test":"TestRandom/seed=7","Output":"    bed.go:216:     [2026/11/27 02:53:20.000 +00:00] [INFO] [a.go:1]\n"}
{"Action":"fail","Package":"fastddl/tests/cluster","Test":"TestRandom/seed=7"}
{"ImportPath":"fastddl/ddl_test [fastddl/ddl.test]","Action":"build-output","Output":"ddl/x_test.go:1:1: no such thing\n"}
{"Action":"fail","Package":"fastddl/ddl"}
{"Action":"pass","Package":"fastddl/kv","Test":"TestB"}
`

func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tests-a.json")
	require.NoError(t, os.WriteFile(file, []byte(events), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "tests-a.cmd"), []byte("go test -count=1\n"), 0o600))
	var out bytes.Buffer
	require.NoError(t, run(&out, []string{file}))
	require.Equal(t, `
FAIL fastddl/ddl 
    ddl/x_test.go:1:1: no such thing
  again: go test -count=1 ./ddl

FAIL fastddl/sql TestA/x_y
    Error:       wrong
  again: FASTDDL_SEED=42 go test -count=1 -run '^TestA$/^x_y$' ./sql

FAIL fastddl/tests/cluster TestRandom/seed=7
    FASTDDL_SEED=7
    bed.go:216:          Error:       Received unexpected error:
    bed.go:216:                       killed: no row
    bed.go:216:          Test:        TestRandom
  again: cd tests/cluster && FASTDDL_SEED=7 go test -count=1 -run '^TestRandom$' .

3 failed; all output is in `+file+`
FAIL fastddl/ddl : ddl/x_test.go:1:1: no such thing
FAIL fastddl/sql TestA/x_y: wrong
FAIL fastddl/tests/cluster TestRandom/seed=7: Received unexpected error: killed: no row
`, out.String())
}

func TestModules(t *testing.T) {
	var found []string
	for _, pattern := range []string{"*", "tests/*"} {
		files, err := filepath.Glob("../../" + pattern + "/go.mod")
		require.NoError(t, err)
		for _, file := range files {
			dir, err := filepath.Rel("../..", filepath.Dir(file))
			require.NoError(t, err)
			found = append(found, filepath.ToSlash(dir))
		}
	}
	require.ElementsMatch(t, modules, found)
}
