package lint

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "fastddl"
	root   = "../.."
)

// layers orders the packages: one may import packages of lower layers only.
// It is the picture in docs/architecture.md.
var layers = map[string]int{
	"kv": 0, "event": 0, "config": 0, "flow": 0, "flow/idle": 0, "sbtest": 0, "flow/flowtest": 1,
	"backfill/keyrange": 1, "ingest/distribution": 1, "kv/pebblekv": 1, "kv/kvtest": 1, "kv/embedded/cop": 1, "kv/tikv/sstimport": 1, "lightning": 1, "bench/floor": 1,
	"kv/embedded/txn": 2, "kv/embedded/placement": 2, "kv/embedded/conformance": 2, "kv/tikv": 2, "ingest": 2, "backfill/backfilltest": 2,
	"kv/embedded": 3, "ddl/job": 3, "ddl/estimate": 3, "ddl/member": 3, "ddl/session": 3, "backfill/encode": 3, "backfill/indexstats": 3, "load/rows": 3,
	"ddl/records": 4, "ddl/verdict": 6, "backfill/execution": 4, "kv/embedded/histories": 4, "kv/embedded/grpcserver": 4, "kv/backup": 4,
	"backfill/compare": 5, "backfill/survey": 5, "ddl/schema": 5, "ddl/status": 7, "ddl/statistics": 7, "backfill/worker": 7,
	"backfill": 6, "ddl/dist": 8, "backfill/equality": 6, "load": 7,
	"ddl": 9, "load/jobs": 9, "sql/perftables": 9, "sql": 10, "api": 10, "console": 10, "sql/sqltest": 11, "server": 11, "bench": 12, "demo": 13,
	"load/dump": 1, "load/conflict": 1, "ctl/connect": 0, "ctl": 1,
	"cmd/fastddl": 14, "cmd/testreport": 0, "tests/blackbox": 14, "tests/crash": 14, "tests/deploy": 14, "tests/mutation": 14, "tests/fuzz": 14,
	"tests/compare": 14, "tests/shapes": 14, "tests/simulation": 14, "tests/tidbsuite": 14, "tests/upstream": 14,
}

// bannedImports are import paths, with everything below them, that no file may
// use, and why.
var bannedImports = map[string]string{
	"github.com/dolthub":    "the SQL layer is TiDB's",
	lightningPath:           "the ingest is ours; only load reads files by TiDB's readers",
	"github.com/pkg/errors": "use errors and fmt.Errorf with %w",
	"io/ioutil":             "deprecated",
	"log":                   "components emit events; the server logs with zap",
}

// lightningPath is TiDB's import, which package load and those below it may use.
const lightningPath = "github.com/pingcap/tidb/pkg/lightning"

// sqlLayer are the parts of TiDB that make a whole server. Only ddl, its packages that
// read and write TiDB's tables, and what is above know them, so that the pipeline and the
// store build and test in seconds.
var sqlLayer = []string{
	"github.com/pingcap/tidb/pkg/ddl", "github.com/pingcap/tidb/pkg/session", "github.com/pingcap/tidb/pkg/domain",
	"github.com/pingcap/tidb/pkg/executor", "github.com/pingcap/tidb/pkg/server",
}

// metadataUsers are the packages below ddl that may know sqlLayer.
var metadataUsers = []string{"ddl/session", "ddl/records", "ddl/schema", "ddl/status", "ddl/dist"}

// driverUsers are the packages that may know the storage driver; all others see
// package kv only.
var driverUsers = []string{"kv/embedded", "kv/embedded/txn", "kv/embedded/placement", "server", "bench", "backfill/backfilltest", "kv/backup", "backfill/worker"}

// pureFiles hold code without clock, randomness, goroutines or I/O, as a
// package or as a file: time and events come in as arguments.
var pureFiles = []string{"ddl/job", "ddl/estimate", "ddl/dist/subtask.go", "ddl/dist/trouble.go", "flow/controller.go", "flow/target.go", "flow/signals.go", "flow/idle/ladder.go", "flow/idle/quotacontrol.go", "backfill/keyrange", "kv/tikv/sstimport/policy.go"}

// bannedCalls must not be made by libraries.
var bannedCalls = map[string]string{
	"fmt.Print": "return or log it", "fmt.Printf": "return or log it", "fmt.Println": "return or log it",
	"os.Exit": "only main ends the process", "println": "debugging left behind", "print": "debugging left behind",
}

// pureBannedCalls must not be made by pureFiles.
var pureBannedCalls = []string{"time.Now", "time.Since", "time.Sleep", "time.After", "time.NewTimer", "time.NewTicker", "rand."}

const (
	// maxLines is where a file is to be split by what its parts hold.
	maxLines     = 500
	maxTestLines = 900
)

// longFiles may be longer than maxLines, and why.
var longFiles = map[string]string{}

type sourceFile struct {
	path string // slash-separated, from the root
	pkg  string // its folder
	test bool
	text []byte
	ast  *ast.File
	set  *token.FileSet
}

// line returns the line at which a node begins.
func (f sourceFile) line(n ast.Node) int { return f.set.Position(n.Pos()).Line }

// sources returns the files of the main module.
func sources(t *testing.T) []sourceFile {
	t.Helper()
	return parse(t, false)
}

// allSources returns the files of all modules.
func allSources(t *testing.T) []sourceFile {
	t.Helper()
	return parse(t, true)
}

func parse(t *testing.T, allModules bool) []sourceFile {
	t.Helper()
	var files []sourceFile
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "testdata" || name == "bin" || (strings.HasPrefix(name, ".") && p != root) {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && p != root && !allModules {
				return filepath.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, p, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files = append(files, sourceFile{path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), text: text, ast: parsed, set: fset})
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func imports(f sourceFile) []string {
	out := make([]string, len(f.ast.Imports))
	for i, spec := range f.ast.Imports {
		out[i], _ = strconv.Unquote(spec.Path.Value) // the parser has checked it
	}
	return out
}

func TestBannedImports(t *testing.T) {
	for _, f := range sources(t) {
		loads := f.pkg == "load" || strings.HasPrefix(f.pkg, "load/")
		for _, imp := range imports(f) {
			for banned, why := range bannedImports {
				if loads && banned == lightningPath {
					continue
				}
				// Of the standard library only the package itself is meant.
				if imp == banned || (strings.Contains(banned, ".") && strings.HasPrefix(imp, banned+"/")) {
					t.Errorf("%s imports %s: %s", f.path, imp, why)
				}
			}
		}
	}
}

func TestPipelineDoesNotKnowTheSQLLayer(t *testing.T) {
	for _, f := range sources(t) {
		if layer, known := layerOf(f.pkg); f.test || !known || layer >= layers["ddl"] || slices.Contains(metadataUsers, f.pkg) {
			continue
		}
		for _, imp := range imports(f) {
			for _, banned := range sqlLayer {
				if imp == banned {
					t.Errorf("%s imports %s: that belongs to ddl, sql and server", f.path, imp)
				}
			}
		}
	}
}

// helperLayer is the layer of everything in internal: helpers that know
// nothing of the rest and that all may use.
const helperLayer = -1

func layerOf(pkg string) (layer int, known bool) {
	if pkg == "internal/errs" {
		return helperLayer - 1, true // helpers contain their panics with it
	}
	if strings.HasPrefix(pkg, "internal/") {
		return helperLayer, true
	}
	layer, known = layers[pkg]
	return layer, known
}

func TestLayers(t *testing.T) {
	for _, f := range sources(t) {
		layer, known := layerOf(f.pkg)
		if !known {
			t.Errorf("%s: package %s is in no layer; add it to layers and to docs/architecture.md", f.path, f.pkg)
			continue
		}
		if f.test {
			continue // a test may stand on anything
		}
		for _, imp := range imports(f) {
			dep, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			if below, _ := layerOf(dep); below >= layer {
				t.Errorf("%s (layer %d) must not import %s (layer %d)", f.path, layer, dep, below)
			}
			if dep == "kv/pebblekv" && !slices.Contains(driverUsers, f.pkg) {
				t.Errorf("%s must not know the storage driver: use package kv", f.path)
			}
		}
	}
}

func TestLibrariesDoNotPrintOrExit(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || strings.HasPrefix(f.pkg, "cmd/") {
			continue
		}
		forEachCall(f, func(name string) {
			if why, banned := bannedCalls[name]; banned {
				t.Errorf("%s calls %s: %s", f.path, name, why)
			}
		})
	}
}

func TestPureCodeHasNoClock(t *testing.T) {
	found := make(map[string]bool)
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, pure := range pureFiles {
			if f.path != pure && f.pkg != pure {
				continue
			}
			found[pure] = true
			forEachCall(f, func(name string) {
				for _, banned := range pureBannedCalls {
					if name == banned || (strings.HasSuffix(banned, ".") && strings.HasPrefix(name, banned)) {
						t.Errorf("%s calls %s: pure code takes time and chance as arguments", f.path, name)
					}
				}
			})
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if _, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s starts a goroutine: pure code does not", f.path)
				}
				return true
			})
		}
	}
	for _, pure := range pureFiles {
		require.True(t, found[pure], "%s does not exist: correct pureFiles", pure)
	}
}

// forEachCall calls fn with the name of every function called as name() or
// package.name().
func forEachCall(f sourceFile, fn func(name string)) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch callee := call.Fun.(type) {
		case *ast.Ident:
			fn(callee.Name)
		case *ast.SelectorExpr:
			if x, ok := callee.X.(*ast.Ident); ok {
				fn(x.Name + "." + callee.Sel.Name)
			}
		}
		return true
	})
}

func TestEveryPackageHasADoc(t *testing.T) {
	files := make(map[string]int)
	documentedIn := make(map[string]string)
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		files[f.pkg]++
		if f.ast.Doc != nil {
			documentedIn[f.pkg] = path.Base(f.path)
		}
	}
	for pkg, n := range files {
		// A helper of one file carries the comment itself.
		if documentedIn[pkg] == "" || (n > 1 && documentedIn[pkg] != "doc.go") {
			t.Errorf("package %s has no doc.go that says its purpose and invariants", pkg)
		}
	}
}

func TestFileLength(t *testing.T) {
	for _, f := range sources(t) {
		limit := maxLines
		if f.test {
			limit = maxTestLines
		}
		_, listed := longFiles[f.path]
		if lines := bytes.Count(f.text, []byte("\n")); lines > limit && !listed {
			t.Errorf("%s has %d lines, more than %d: split it by what its parts hold", f.path, lines, limit)
		}
	}
}

func TestNothingIsLeftForLater(t *testing.T) {
	markers := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}
	for _, f := range sources(t) {
		for _, group := range f.ast.Comments {
			for _, marker := range markers {
				if strings.Contains(group.Text(), marker) {
					t.Errorf("%s: a comment says %s: do it or file it", f.path, marker)
				}
			}
		}
	}
}

func TestSourcesAreFormatted(t *testing.T) {
	for _, f := range sources(t) {
		formatted, err := format.Source(f.text)
		require.NoError(t, err, f.path)
		if !bytes.Equal(formatted, f.text) {
			t.Errorf("%s is not formatted: run make fmt", f.path)
		}
	}
}
