package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowedReplaces are the modules that go.mod replaces, and why: TiDB's own
// module replaces them in the same way, and does not compile without.
var allowedReplaces = map[string]string{
	"google.golang.org/grpc":     "client-go needs an API that newer versions do not have",
	"github.com/go-ldap/ldap/v3": "TiDB's LDAP authentication needs a method that the original does not have",
}

var replaced = regexp.MustCompile(`(?m)^\s*(?:replace\s+)?(\S+)(?:\s+\S+)?\s+=>\s+(\S+)`)

// TestTiDBIsUnmodified: TiDB is used as its authors publish it. No fork, no
// patch and no copy takes its place, and nothing reaches into its insides past
// the compiler.
func TestTiDBIsUnmodified(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	for _, m := range replaced.FindAllStringSubmatch(string(text), -1) {
		if _, ok := allowedReplaces[m[1]]; !ok {
			t.Errorf("go.mod replaces %s by %s", m[1], m[2])
		}
	}
	for _, gone := range []string{"dolthub/go-mysql-server", "dolthub/vitess"} {
		require.NotContains(t, string(text), gone)
	}
	_, err = os.Stat(filepath.Join(root, "vendor"))
	require.ErrorIs(t, err, os.ErrNotExist, "a vendored module can be changed unseen")
	linkname := "//go:" + "linkname"
	for _, f := range sources(t) {
		if strings.Contains(string(f.text), "\n"+linkname) {
			t.Errorf("%s uses %s", f.path, linkname)
		}
	}
}
