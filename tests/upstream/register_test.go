package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root     = "../.."
	register = "register.tsv"
	header   = "module\tfile\tdeclaration\thash\tours\twhy"
	// acceptEnv has the tests write the hashes of the module cache into the register.
	acceptEnv = "FASTDDL_ACCEPT"
)

// modules are those in the module cache, by their names in the register.
var modules = map[string]string{
	"tidb": "github.com/pingcap/tidb", "tidb-parser": "github.com/pingcap/tidb/pkg/parser", "client-go": "github.com/tikv/client-go/v2",
}

// row is one declaration of another module that we rely on, or describe.
type row struct {
	module, file, decl string
	hash               string   // of the source when it was read last; @ and a version if it is not in the module cache
	ours               []string // our files
	why                string
}

func (r row) String() string { return r.module + " " + r.file + " " + r.decl }

// readAt says that the source is not in the module cache, but was read at a version.
func (r row) readAt() bool { return strings.HasPrefix(r.hash, "@") }

// TestDeclarationsAreAsRead names what has changed in the modules since a person has read it.
func TestDeclarationsAreAsRead(t *testing.T) {
	rows := readRegister(t)
	if os.Getenv(acceptEnv) != "" {
		accept(t, rows)
		rows = readRegister(t)
	}
	for _, change := range changes(rows, moduleDir(t)) {
		t.Error(change)
	}
	if t.Failed() {
		t.Logf("read each declaration, change our files where that is needed, then accept it: %s=1 go test ./tests/upstream", acceptEnv)
	}
}

// changes says which declarations are not as they were read, why that matters, and to which of our files.
func changes(rows []row, dir func(module string) string) (out []string) {
	for _, r := range rows {
		if r.readAt() {
			continue
		}
		what := ""
		switch now, err := currentHash(r, dir); {
		case errors.Is(err, fs.ErrNotExist):
			what = "is gone"
		case err != nil:
			what = "cannot be read: " + err.Error()
		case now != r.hash:
			what = fmt.Sprintf("has changed (%s, now %s)", r.hash, now)
		default:
			continue
		}
		out = append(out, fmt.Sprintf("%s: %s %s\n\twhy: %s\n\tours: %s", filepath.Join(dir(r.module), r.file), r.decl, what, r.why, strings.Join(r.ours, ", ")))
	}
	return out
}

// currentHash fails with fs.ErrNotExist if there is no such declaration any more.
func currentHash(r row, dir func(module string) string) (string, error) {
	src, err := os.ReadFile(filepath.Join(dir(r.module), filepath.FromSlash(r.file)))
	if err != nil {
		return "", err
	}
	all, err := hashes(r.file, src)
	if err != nil {
		return "", err
	}
	now, ok := all[r.decl]
	if !ok {
		return "", fs.ErrNotExist
	}
	return now, nil
}

// accept writes the register anew, in order, with the hashes of what is in the module cache.
func accept(t *testing.T, rows []row) {
	dir := moduleDir(t)
	for i, r := range rows {
		if now, err := currentHash(r, dir); !r.readAt() && err == nil {
			rows[i].hash = now
		}
	}
	slices.SortFunc(rows, compareRows)
	lines := []string{header}
	for _, r := range rows {
		lines = append(lines, strings.Join([]string{r.module, r.file, r.decl, r.hash, strings.Join(r.ours, ","), r.why}, "\t"))
	}
	require.NoError(t, os.WriteFile(register, []byte(strings.Join(lines, "\n")+"\n"), 0o666))
}

func compareRows(a, b row) int { return strings.Compare(a.String(), b.String()) }

func readRegister(t *testing.T) (rows []row) {
	text, err := os.ReadFile(register)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	require.Equal(t, header, lines[0])
	for i, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		require.Len(t, fields, 6, "%s:%d", register, i+2)
		rows = append(rows, row{fields[0], fields[1], fields[2], fields[3], strings.Split(fields[4], ","), fields[5]})
	}
	return rows
}

// moduleDir returns the folders of the modules in the module cache.
func moduleDir(t *testing.T) func(module string) string {
	dirs, err := moduleDirs()
	require.NoError(t, err)
	return func(module string) string { return dirs[module] }
}

var moduleDirs = sync.OnceValues(func() (map[string]string, error) {
	dirs := make(map[string]string)
	for name, path := range modules {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
		if err != nil {
			return nil, fmt.Errorf("go list -m %s: %w", path, err)
		}
		dirs[name] = strings.TrimSpace(string(out))
		if dirs[name] == "" {
			return nil, fmt.Errorf("%s is not in the module cache: go mod download", path)
		}
	}
	return dirs, nil
})

var storedHash = regexp.MustCompile(`^([0-9a-f]{12}|@[0-9a-z.-]+ \([0-9a-f]{12}\))$`)

func TestRegisterIsWellFormed(t *testing.T) {
	rows := readRegister(t)
	require.True(t, slices.IsSortedFunc(rows, compareRows), "%s=1 go test ./tests/upstream sorts the rows", acceptEnv)
	for i, r := range rows {
		require.False(t, i > 0 && compareRows(rows[i-1], r) == 0, "%s is there twice", r)
		require.Regexp(t, storedHash, r.hash, r.String())
		if !r.readAt() {
			require.Contains(t, modules, r.module, r.String())
		}
		require.NotEmpty(t, r.why, r.String())
		for _, file := range r.ours {
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(file)))
			require.NoError(t, err, r.String())
		}
	}
}

// TestChangedFunctionIsNamed changes functions of TiDB's in a copy.
func TestChangedFunctionIsNamed(t *testing.T) {
	const file, function, next = "pkg/ddl/job_scheduler.go", "jobScheduler.processJobDuringUpgrade", "jobScheduler.loadAndDeliverJobs"
	const signature = "processJobDuringUpgrade(sess *sess.Session, job *model.Job) (isRunnable bool, err error) {"
	original, err := os.ReadFile(filepath.Join(moduleDir(t)("tidb"), filepath.FromSlash(file)))
	require.NoError(t, err)
	var rows []row
	for _, r := range readRegister(t) {
		if r.module == "tidb" && r.file == file {
			rows = append(rows, r)
		}
	}
	for name, c := range map[string]struct {
		old, new string
		want     map[string]string
	}{
		"nothing":          {"", "", nil},
		"a statement":      {signature, signature + "\n\tisRunnable = true", map[string]string{function: "has changed"}},
		"a comment":        {signature, signature + "\n\t// Nothing else.\n\n", nil},
		"another name":     {"processJobDuringUpgrade(", "processUpgrade(", map[string]string{function: "is gone", next: "has changed"}},
		"another function": {"func hasSysDB(", "func last() {}\n\nfunc hasSysDB(", nil},
		"no Go":            {"package ddl", "packge ddl", map[string]string{function: "cannot be read", next: "cannot be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			changed := strings.ReplaceAll(string(original), c.old, c.new)
			if c.old == "" {
				changed = string(original)
			} else {
				require.NotEqual(t, string(original), changed)
			}
			require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(filepath.FromSlash(file))), 0o777))
			require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(file)), []byte(changed), 0o666))
			got := changes(rows, func(string) string { return dir })
			for decl, what := range c.want {
				i := slices.IndexFunc(got, func(s string) bool { return strings.Contains(s, file+": "+decl+" "+what) })
				require.GreaterOrEqual(t, i, 0, "%s %s: %q", decl, what, got)
				require.Contains(t, got[i], "ours: ddl/", "names our file")
			}
			if name != "no Go" {
				require.Len(t, got, len(c.want))
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		require.Len(t, changes(rows, func(string) string { return t.TempDir() }), len(rows))
	})
}

// TestHashesOfDeclarations: which parts of a declaration count.
func TestHashesOfDeclarations(t *testing.T) {
	of := func(src, decl string) string {
		all, err := hashes("a.go", []byte("package a\n"+src))
		require.NoError(t, err)
		require.Contains(t, all, decl)
		return all[decl]
	}
	require.Equal(t, of("func f() { g(1) }", "f"), of("// f.\nfunc f() {\n\tg(1) // one\n}", "f")[:hashLen])
	require.NotEqual(t, of("func f() { g(1) }", "f"), of("func f() { g(2) }", "f"))
	require.NotEqual(t, of("func f() { g(`a  b`) }", "f"), of("func f() { g(`a b`) }", "f"))
	require.NotEqual(t, of("func (t T[K]) m() {}", "T.m"), of("func (t *T[K]) m() {}", "T.m"))
	require.Equal(t, of("const (\n\ta = 1\n\tb = 2\n)", "b"), of("const (\n\ta = 3\n\tb = 2\n)", "b"))
	require.NotEqual(t, of("const (\n\ta = iota\n\tb\n)", "b"), of("const (\n\ta = iota + 1\n\tb\n)", "b"), "b depends on a")
	require.NotEqual(t, of("type T struct{ a int }", "T"), of("type T struct{ a, b int }", "T"))
	require.NotEqual(t, of("var v = f()", "v"), of("var v = g()", "v"))
}
