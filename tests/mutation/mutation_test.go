package mutation

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	root = "../.."
	// testTimeout bounds the run of a test that a mutation may have made hang. Tests say after their hangTimeout of five minutes what has.
	testTimeout = 6 * time.Minute
)

// mutation is a change of the code that breaks an invariant.
type mutation struct {
	// invariant is what breaks, and the heading in the document.
	invariant string
	// breaks says what the code does wrong with the change.
	breaks string
	// file is the path from the root. old occurs in it once, and becomes new.
	file, old, new string
	// caught is the test that fails, as folder.Test or folder.Test/subtest.
	caught string
	// shows is a regular expression that the output of the failing test matches:
	// it fails for the right reason.
	shows string
}

// mutations are all changes, in the order of the document.
func mutations() []mutation {
	return slices.Concat(twoVersions, snapshots, past, garbage, visibility, uniqueness, ends, builders, owners, batches, isolation, verification, proof, files, clusterCounts, entries, edge, formats, statusPort, indexStatistics, answers, schedules, explain, loads, dumps, loadRuns, imports, backups, commands, api, console, buildWorkers)
}

// target splits caught into the test's folder, the path of its names, and its
// function.
func (m mutation) target() (folder, names, function string) {
	at := strings.Index(m.caught, ".Test")
	folder, names = m.caught[:at], m.caught[at+1:]
	function, _, _ = strings.Cut(names, "/")
	return folder, names, function
}

// source returns the file with the change.
func (m mutation) source() (string, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s has the text to be changed %d times, not once:\n%s", m.file, n, m.old)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}

// row is the mutation's line in the document.
func (m mutation) row() string {
	folder, names, _ := m.target()
	return fmt.Sprintf("| %s | `%s.%s` |", m.breaks, path.Base(folder), names)
}

// TestMutationsFitTheCode: the list matches the code.
func TestMutationsFitTheCode(t *testing.T) {
	count := make(map[string]int)
	for _, m := range mutations() {
		count[m.invariant]++
		source, err := m.source()
		require.NoError(t, err, m.breaks)
		_, err = parser.ParseFile(token.NewFileSet(), m.file, source, 0)
		require.NoError(t, err, m.breaks)
		_, err = regexp.Compile(m.shows)
		require.NoError(t, err, m.breaks)
		folder, _, function := m.target()
		require.True(t, hasTest(t, folder, function), "%s has no %s", folder, function)
	}
	for _, g := range guards {
		for _, test := range strings.Fields(g.tests) {
			if folder, function, _ := strings.Cut(test, "."); strings.Contains(folder, "/") {
				require.True(t, hasTest(t, folder, function), "%s has no %s", folder, function)
			}
		}
	}
	for i := 1; i <= 8; i++ {
		require.GreaterOrEqual(t, count[fmt.Sprintf("I%d", i)], 3, "I%d", i)
	}
}

func hasTest(t *testing.T, folder, function string) bool {
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == function {
				return true
			}
		}
	}
	return false
}

// written is the note in a document that names the program that writes it. What lies between begin and
// end is written by a program.
const (
	written = "\nWritten by `FASTDDL_ACCEPT=1 go test -vet=off ./tests/mutation -run DocumentLists` from the lists in `tests/mutation`: change these, not this page.\n"
	begin   = "\n<!-- mutations:begin -->\n"
	end     = "\n<!-- mutations:end -->\n"
)

const mutationsHead = "# Tests and mutations by invariant\n" + written + `
The invariants are those of [correctness.md](correctness.md); what follows I8 are parts of the product. A mutation is a change of the code that breaks an invariant,
and the test beside it fails for that. "make mutations" makes them, one at a time, and checks that the right test fails for the right reason: a test that passes
over broken code guards nothing.
`

// mutationsPage lists by invariant the tests that guard it, and its mutations.
func mutationsPage() string {
	var order []string
	tests, rows := make(map[string]string), make(map[string]string)
	add := func(to map[string]string, invariant, line string) {
		if tests[invariant]+rows[invariant] == "" {
			order = append(order, invariant)
		}
		to[invariant] += line + "\n"
	}
	for _, m := range mutations() {
		add(rows, m.invariant, m.row())
	}
	for _, g := range guards {
		add(tests, g.invariant, g.row())
	}
	var b strings.Builder
	b.WriteString(mutationsHead + begin)
	for _, invariant := range order {
		b.WriteString("\n## " + invariant + "\n")
		if tests[invariant] != "" {
			b.WriteString("\n| what is guarded | tests |\n|---|---|\n" + tests[invariant])
		}
		if rows[invariant] != "" {
			b.WriteString("\n| mutation | caught by |\n|---|---|\n" + rows[invariant])
		}
	}
	b.WriteString(end)
	return b.String()
}

const failuresHead = "# Failures of other systems that are tests here\n" + written + `
What users of other systems have met when they built indexes online, and the tests that show that it does not happen here. The second column says where it was
reported: a repository with the number of its issue or pull request, or MySQL's bug list.
`

func failuresPage() string {
	var b strings.Builder
	b.WriteString(failuresHead + begin)
	kind := ""
	for _, f := range failures {
		if f.kind != kind {
			kind = f.kind
			b.WriteString("\n## " + kind + "\n\n| what happened | where | our test |\n|---|---|---|\n")
		}
		b.WriteString(f.row() + "\n")
	}
	b.WriteString(end)
	return b.String()
}

// TestDocumentListsTheMutations: the documents match the lists. FASTDDL_ACCEPT=1 rewrites them.
func TestDocumentListsTheMutations(t *testing.T) {
	for document, page := range map[string]string{"docs/mutations.md": mutationsPage(), "docs/failures-elsewhere.md": failuresPage()} {
		file := filepath.Join(root, document)
		if os.Getenv("FASTDDL_ACCEPT") != "" {
			require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, page, string(text), "%s is not what this package's lists say", document)
	}
}

// TestMutationsAreCaught makes each change and runs the test that must fail.
func TestMutationsAreCaught(t *testing.T) {
	if os.Getenv("FASTDDL_LONG") == "" {
		t.Skip("builds and tests the code once per mutation: runs with FASTDDL_LONG=1")
	}
	for _, m := range mutations() {
		t.Run(m.invariant+" "+m.breaks, func(t *testing.T) {
			out, err := m.run(t, m.overlay(t))
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "nothing failed:\n%s", out)
			_, names, _ := m.target()
			require.Contains(t, out, "--- FAIL: "+strings.ReplaceAll(names, " ", "_"), "it did not fail in the test:\n%s", out)
			require.Regexp(t, m.shows, out, "it failed for another reason")
			t.Logf("%s", out)
		})
	}
}

// TestGuardsPassWithoutMutations runs the same tests over the code as it is.
func TestGuardsPassWithoutMutations(t *testing.T) {
	if os.Getenv("FASTDDL_LONG") == "" {
		t.Skip("repeats tests of other packages: runs with FASTDDL_LONG=1")
	}
	done := make(map[string]bool)
	for _, m := range mutations() {
		if done[m.caught] {
			continue
		}
		done[m.caught] = true
		t.Run(m.caught, func(t *testing.T) {
			out, err := m.run(t)
			require.NoError(t, err, "%s", out)
			require.NotContains(t, out, "no tests to run")
		})
	}
}

// overlay writes the changed file, and returns the flag that puts it in the
// place of the one in the tree.
func (m mutation) overlay(t *testing.T) string {
	source, err := m.source()
	require.NoError(t, err)
	original, err := filepath.Abs(filepath.Join(root, m.file))
	require.NoError(t, err)
	dir := t.TempDir()
	changed := filepath.Join(dir, "changed.go")
	require.NoError(t, os.WriteFile(changed, []byte(source), 0o600))
	data, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return "-overlay=" + file
}

// run runs the test that catches the mutation.
func (m mutation) run(t *testing.T, flags ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*testTimeout)
	defer cancel()
	folder, names, _ := m.target()
	var pattern []string
	for _, name := range strings.Split(names, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(strings.ReplaceAll(name, " ", "_"))+"$")
	}
	args := append([]string{"test", "-count=1", "-timeout=" + testTimeout.String()}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-run="+strings.Join(pattern, "/"), "./"+folder)...)
	cmd.Dir = root
	// Run the short forms of the tests.
	cmd.Env = append(os.Environ(), "FASTDDL_LONG=")
	output, err := cmd.CombinedOutput()
	return string(output), err
}
