package upstream

import (
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

// mention is a file of Go or Rust that a comment or a document names.
type mention struct {
	in   string // our file
	file string // as it is written there, with its folders or without
}

var sourceFile = regexp.MustCompile(`[A-Za-z0-9_./-]*[A-Za-z0-9_]\.(go|rs)\b`)

// TestMentionsAreRegistered: what a comment or a document says of a file of another module
// is to be read again when that changes.
func TestMentionsAreRegistered(t *testing.T) {
	rows := readRegister(t)
	found := mentions(t, root)
	for _, m := range found {
		if !registered(rows, m) {
			t.Errorf("%s names %s: %s needs a row for what it says of it", m.in, m.file, register)
		}
	}
	require.Greater(t, len(found), 80)
}

// registered says that a row has the file, and names where it is mentioned.
func registered(rows []row, m mention) bool {
	return slices.ContainsFunc(rows, func(r row) bool {
		return strings.HasSuffix("/"+r.file, "/"+m.file) && slices.Contains(r.ours, m.in)
	})
}

// mentions returns the files of others that the comments of the product and the documents name.
func mentions(t *testing.T, root string) (found []mention) {
	files := make(map[string]bool)
	names := make(map[string]bool)
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"):
			return fs.SkipDir
		case !d.IsDir():
			files[p], names[path.Base(p)] = true, true
		}
		return nil
	}))
	for p := range files {
		text, ours := "", func(file string) bool { return files[file] || files[path.Join(path.Dir(p), file)] }
		switch {
		case strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, "_test.go"):
			text = comments(t, filepath.Join(root, p))
		case strings.HasSuffix(p, ".md") && (strings.HasPrefix(p, "docs/") || !strings.Contains(p, "/")):
			content, err := os.ReadFile(filepath.Join(root, p))
			require.NoError(t, err)
			text = string(content)
			ours = func(file string) bool { return files[file] || names[file] }
		}
		for _, at := range sourceFile.FindAllStringIndex(text, -1) {
			if rest := text[at[1]:]; len(rest) > 1 && rest[0] == '.' && 'a' <= rest[1] && rest[1] <= 'z' {
				continue // a host
			}
			if file := strings.TrimPrefix(text[at[0]:at[1]], "./"); !ours(file) {
				found = append(found, mention{in: p, file: file})
			}
		}
	}
	return found
}

func comments(t *testing.T, file string) string {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	var text strings.Builder
	for _, group := range parsed.Comments {
		for _, c := range group.List {
			text.WriteString(c.Text + "\n")
		}
	}
	return text.String()
}

// TestMentionWithoutARowIsNamed makes a tree with comments and a document.
func TestMentionWithoutARowIsNamed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/own.go":      "package a\n\n// A is as in own.go, a/own.go, pkg/ddl/index.go and 2pc.go (see go.dev).\nconst A = \"pkg/string.go\"\n",
		"a/own_test.go": "package a\n\n// pkg/ddl/tested.go\n",
		"docs/d.md":     "`f` in `src/mvcc/forward.rs:12`, `own.go`, pkg.go.dev and br/pkg/x.go.",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	found := mentions(t, dir)
	require.ElementsMatch(t, []mention{
		{"a/own.go", "pkg/ddl/index.go"}, {"a/own.go", "2pc.go"}, {"docs/d.md", "src/mvcc/forward.rs"}, {"docs/d.md", "br/pkg/x.go"},
	}, found)
	rows := []row{{file: "pkg/ddl/index.go", ours: []string{"a/own.go"}}, {file: "txn/2pc.go", ours: []string{"b/other.go"}}, {file: "br/pkg/xx.go", ours: []string{"docs/d.md"}}}
	var missing []string
	for _, m := range found {
		if !registered(rows, m) {
			missing = append(missing, m.file)
		}
	}
	require.ElementsMatch(t, []string{"2pc.go", "src/mvcc/forward.rs", "br/pkg/x.go"}, missing)
}
