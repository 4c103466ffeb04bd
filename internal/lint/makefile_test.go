package lint

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// makeVariable returns what the Makefile assigns to a variable, its lines joined.
func makeVariable(t *testing.T, name string) string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	value := regexp.MustCompile(`(?m)^` + name + ` *:= ((?:.*\\\n)*.*)$`).FindStringSubmatch(string(makefile))
	require.NotNil(t, value, name)
	joined := strings.ReplaceAll(value[1], "$\\\n", "") // a name goes on in the next line
	return strings.ReplaceAll(joined, "\\\n", " ")
}

// testsOf returns the names of the tests and fuzz targets of each package.
func testsOf(t *testing.T) map[string][]string {
	t.Helper()
	tests := make(map[string][]string)
	for _, f := range sources(t) {
		if !f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				tests[path.Dir(f.path)] = append(tests[path.Dir(f.path)], fn.Name.Name)
			}
		}
	}
	return tests
}

// TestRacedTestsExist: the tests of sql that run under the race detector are there: go test does not complain of
// one that is not.
func TestRacedTestsExist(t *testing.T) {
	list, found := strings.CutPrefix(makeVariable(t, "RACE_SQL"), "^Test(")
	require.True(t, found)
	list, found = strings.CutSuffix(list, ")$$")
	require.True(t, found)
	tests := testsOf(t)["sql"]
	for name := range strings.SplitSeq(list, "|") {
		require.Contains(t, tests, "Test"+name)
	}
}

// TestSkippedTestsRunSequentially: make test runs each test that it leaves out under the race detector without it, and
// names no test that is not there.
func TestSkippedTestsRunSequentially(t *testing.T) {
	pattern := strings.ReplaceAll(makeVariable(t, "SEQUENTIAL"), "$$", "$")
	skipped := regexp.MustCompile(pattern)
	sequential := strings.Fields(makeVariable(t, "SEQUENTIAL_PKGS"))
	raced := regexp.MustCompile(`\$\$\(go list \./internal/\.\.\. .*\)`).ReplaceAllString(makeVariable(t, "RACE_PKGS"), "./internal/...")
	raced = strings.ReplaceAll(raced, "$(BACKFILL)", makeVariable(t, "BACKFILL"))
	require.NotContains(t, raced, "$")
	inRace := func(pkg string) bool {
		return slices.ContainsFunc(strings.Fields(raced), func(p string) bool {
			folder, below := strings.CutSuffix(p, "/...")
			return "./"+pkg == folder || below && strings.HasPrefix("./"+pkg, folder+"/")
		})
	}
	found := make(map[string]bool)
	for pkg, names := range testsOf(t) {
		for _, name := range names {
			if inRace(pkg) && skipped.MatchString(name) {
				require.Contains(t, sequential, "./"+pkg, "%s is left out under the race detector and does not run without it", name)
				found[name] = true
			}
		}
	}
	// Without each of its words the pattern leaves out fewer tests.
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(pattern, -1) {
		less := regexp.MustCompile(regexp.MustCompile(`\b`+word+`\b`).ReplaceAllString(pattern, "#"))
		all := true
		for name := range found {
			all = all && less.MatchString(name)
		}
		require.False(t, all, "no test of the race detector's packages needs %q in SEQUENTIAL", word)
	}
}
