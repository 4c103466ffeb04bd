package mutation

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// searchTime is within which a search has to find a link that loses rows or entries.
const searchTime = time.Minute

// lossyLink is a link between rows and index that loses some of what passes it. The searches run statements against the
// binary, and do not know of links.
type lossyLink struct {
	mutation
	// embedded, cluster say which searches go through the link.
	embedded, cluster bool
}

var lossyLinks = []lossyLink{
	{
		mutation: mutation{
			breaks: "the scan of the embedded store loses rows",
			file:   "kv/pebblekv/scan.go",
			old:    "if err := s.dec.add(s.it.key, s.it.value); err != nil {",
			new:    "if s.it.key[len(s.it.key)-1] == 5 {\n\t\t} else if err := s.dec.add(s.it.key, s.it.value); err != nil {",
		},
		embedded: true,
	},
	{
		mutation: mutation{
			breaks: "the scan of TiKV loses rows",
			file:   "kv/tikv/rows.go",
			old:    "b.rows.Append(c, at, at+n)",
			new:    "b.rows.Append(c, at, at+n-n/7)",
		},
		cluster: true,
	},
	{
		mutation: mutation{
			breaks: "the sorter loses entries",
			file:   "ingest/merge.go",
			old:    "if !in.stored {\n\t\t\tm.checkOrder",
			new:    "if !in.stored && in.at != 7 {\n\t\t\tm.checkOrder",
		},
		embedded: true, cluster: true,
	},
	{
		mutation: mutation{
			breaks: "the importer loses files",
			file:   "lightning/importer.go",
			old:    "im.pending = append(im.pending, unit)",
			new:    "if unit.Size()%2 == 0 {\n\t\tim.pending = append(im.pending, unit)\n\t}",
		},
		embedded: true, cluster: true,
	},
}

// TestLossyLinksFitTheCode: the list matches the code.
func TestLossyLinksFitTheCode(t *testing.T) {
	for _, l := range lossyLinks {
		_, err := l.source()
		require.NoError(t, err, l.breaks)
	}
}

// TestSearchesFindLossyLinks: the searches of random statements against the binary find each link that loses something, by
// the error of the build or by the index that lacks entries, within a minute.
func TestSearchesFindLossyLinks(t *testing.T) {
	if os.Getenv("FASTDDL_LONG") == "" {
		t.Skip("builds the binary once per link and searches for a minute: runs with FASTDDL_LONG=1")
	}
	for _, l := range lossyLinks {
		t.Run(l.breaks, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "fastddl")
			cmd := exec.Command("go", "build", l.overlay(t), "-o", binary, "./cmd/fastddl")
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			if l.embedded {
				t.Run("crashes", func(t *testing.T) { requireFound(t, binary, "tests/crash", "./", "TestKillsUnderRandomLoad") })
			}
			if l.cluster {
				t.Run("cluster", func(t *testing.T) { requireFound(t, binary, "tests/cluster", "./", "TestRandom") })
			}
		})
	}
}

// errorOfLoss is how a build, or the search's own comparison, says that something is missing.
var errorOfLoss = regexp.MustCompile(`visited|scanned|were appended|files that have|differ|inconsistent`)

// requireFound runs a search of the binary, which has to fail because something was lost.
func requireFound(t *testing.T, binary, folder, pkg, search string) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*searchTime) // it ends what it has begun, and builds the tests
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-run=^"+search+"$", pkg)
	cmd.Dir = filepath.Join(root, folder)
	cmd.Env = append(os.Environ(), "FASTDDL_LONG=", "FASTDDL_SEED=", "FASTDDL_BIN="+binary, "FASTDDL_TIME="+searchTime.String())
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "nothing was found:\n%s", out)
	require.Regexp(t, "--- FAIL: "+search, string(out))
	require.Regexp(t, errorOfLoss, string(out), "it failed for another reason")
}
