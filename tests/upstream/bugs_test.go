package upstream

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const bugsPage = "docs/upstream-bugs.md"

// bug is an entry of the page of bugs.
type bug struct{ what, where, reproduction, here, upstream string }

var (
	declared = regexp.MustCompile("`([A-Za-z0-9_.]+)`")
	tested   = regexp.MustCompile("`(?:([a-z]+)\\.)?(Test[A-Z][A-Za-z0-9]*)`")
	ourFile  = regexp.MustCompile("`([a-z][A-Za-z0-9_/.-]*\\.(?:go|md))`")
	issue    = regexp.MustCompile(`^(like )?[a-z-]+/[a-z-]+#[0-9]+( \([a-z ]+\))?$`)
)

func TestBugsNameWhatExists(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, bugsPage))
	require.NoError(t, err)
	bugs, err := parseBugs(string(text))
	require.NoError(t, err)
	require.Greater(t, len(bugs), 50)
	for _, problem := range bugProblems(bugs, readRegister(t), tests(t), func(file string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(file)))
		return err == nil
	}) {
		t.Errorf("%s: %s", bugsPage, problem)
	}
}

// parseBugs reads the rows of the page's tables.
func parseBugs(text string) (bugs []bug, err error) {
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 5 {
			return nil, fmt.Errorf("line %d has %d cells", i+1, len(cells))
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] != "bug" && !strings.HasPrefix(cells[0], "---") {
			bugs = append(bugs, bug{cells[0], cells[1], cells[2], cells[3], cells[4]})
		}
	}
	return bugs, nil
}

// bugProblems says what of an entry is not there: its declarations in the register, its tests, its files.
func bugProblems(bugs []bug, rows []row, tests map[string]bool, exists func(file string) bool) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	named := make(map[string]bool)
	for _, b := range bugs {
		if b.where == "" {
			problem("%q says not where", b.what)
		}
		for _, m := range declared.FindAllStringSubmatch(b.where, -1) {
			decl := m[1]
			named[decl] = true
			switch n := countRows(rows, decl); {
			case n == 0:
				problem("%s has no row in %s that names this page", decl, register)
			case n > 1:
				problem("%s is in several files", decl)
			}
		}
		for _, m := range tested.FindAllStringSubmatch(b.reproduction, -1) {
			if name := strings.TrimPrefix(m[1]+"."+m[2], "."); !tests[name] {
				problem("there is no test %s", name)
			}
		}
		for _, m := range ourFile.FindAllStringSubmatch(b.here, -1) {
			if !exists(m[1]) {
				problem("there is no file %s", m[1])
			}
		}
		for _, link := range strings.Split(b.upstream, ", ") {
			if link != "" && !issue.MatchString(link) {
				problem("%q is no issue", link)
			}
		}
	}
	for _, r := range rows {
		if slices.Contains(r.ours, bugsPage) && !named[r.decl] {
			problem("%s has a row that names this page, which does not name it", r)
		}
	}
	return problems
}

// countRows returns how many rows of a declaration name the page of bugs.
func countRows(rows []row, decl string) (n int) {
	for _, r := range rows {
		if r.decl == decl && slices.Contains(r.ours, bugsPage) {
			n++
		}
	}
	return n
}

// tests returns the tests of all modules, with the name of their package and without.
func tests(t *testing.T) map[string]bool {
	found := make(map[string]bool)
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				found[f.Name.Name], found[path.Base(filepath.ToSlash(filepath.Dir(p)))+"."+f.Name.Name] = true, true
			}
		}
		return nil
	}))
	return found
}

// TestProblemsOfBugsAreNamed has a page with one mistake of each kind.
func TestProblemsOfBugsAreNamed(t *testing.T) {
	bugs, err := parseBugs("# Bugs\n\n| bug | where | reproduction | here | upstream |\n|---|---|---|---|---|\n" +
		"| one | `f`, `pkg/a` | `p.TestOne`, `TestTwo` | `sql/one.go` | pingcap/tidb#1, like tikv/client-go#2 |\n" +
		"| two | `g`, `i` | `p.TestNone` | `sql/none.go` | #3 |\n| three | | | | |\n")
	require.NoError(t, err)
	rows := []row{{file: "a.go", decl: "f", ours: []string{bugsPage}}, {file: "a.go", decl: "g", ours: []string{"docs/other.md"}}, {file: "a.go", decl: "h", ours: []string{bugsPage}},
		{file: "a.go", decl: "i", ours: []string{bugsPage}}, {file: "b.go", decl: "i", ours: []string{bugsPage}}}
	problems := bugProblems(bugs, rows, map[string]bool{"p.TestOne": true, "TestTwo": true}, func(file string) bool { return file == "sql/one.go" })
	require.Len(t, problems, 7)
	for i, want := range []string{"g has no row", "i is in several files", "no test p.TestNone", "no file sql/none.go", `"#3" is no issue`, `"three" says not where`, "a.go h has a row"} {
		require.Contains(t, problems[i], want)
	}
	_, err = parseBugs("| one | two |")
	require.ErrorContains(t, err, "2 cells")
}
