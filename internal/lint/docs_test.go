package lint

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// namedTest is a test named in a document, as `package.Test`.
var namedTest = regexp.MustCompile("`([a-z]+)\\.([Tt]est[A-Z][A-Za-z0-9]*)`")

// TestDocumentsNameTestsThatExist keeps the list of what guards what true.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	exists := make(map[string]bool)
	for _, f := range sources(t) {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				exists[path.Base(f.pkg)+"."+fn.Name.Name] = true
			}
		}
	}
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	named := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
			named++
			if name := m[1] + "." + m[2]; !exists[name] {
				t.Errorf("%s names %s, which does not exist", filepath.Base(document), name)
			}
		}
	}
	require.Positive(t, named)
}

// localLink is a link to a file of the project.
var localLink = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestDocumentsLinkToFilesThatExist(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, document := range append(documents, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, m := range localLink.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", filepath.Base(document), m[1], err)
			}
		}
	}
}
