package tidbsuite

import (
	"archive/zip"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	// The results are those of a server in this time zone.
	if err := os.Setenv("TZ", "Asia/Shanghai"); err != nil {
		panic(err)
	}
	os.Exit(servertest.Main(m, &binary))
}

// config is TiDB's own for these tests (its config.toml), but for what only its
// other stores have; and max-connections as it is by default there.
const config = `max-connections = 0
[tidb]
enable-table-lock = true
new_collations_enabled_on_first_bootstrap = true
[tidb.performance]
stats-lease = "0"
[tidb.experimental]
enable-new-charset = true
allow-expression-index = true
[tidb.tikv-client.async-commit]
safe-window = 0
allowed-clock-drift = 0
`

// withoutCollations is the same for a server that compares strings as TiDB did before 4.0.
var withoutCollations = strings.Replace(config, "bootstrap = true", "bootstrap = false", 1)

// always are the files that run in every test run: schema changes, indexes of all kinds, partitions and ADMIN.
// FASTDDL_LONG runs all files.
var always = []string{
	"show", "ddl/*", "globalindex/*", "clustered_index", "session/clustered_index", "index_merge", "index_join",
	"expression/multi_valued_index", "planner/core/indexmerge_path", "executor/admin", "util/admin", "executor/point_get",
	"executor/partition/write", "table/partition", "collation*",
}

// short are those that run when tests are to be short.
var short = []string{"ddl/index_modify", "ddl/primary_key_handle", "clustered_index", "globalindex/ddl", "collation_pointget"}

// later are those of them that take two minutes together. The last compares the times of several statements, so that it
// wants a machine that does not pause.
var later = []string{"ddl/column_type_change", "ddl/db_partition", "ddl/modify_column", "ddl/db_integration", "ddl/default_as_expression"}

// TestSuite runs TiDB's tests in their order: show and infoschema count the databases and come first.
func TestSuite(t *testing.T) {
	dir := suite(t)
	var names []string
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "t"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".test") {
			name, _ := filepath.Rel(filepath.Join(dir, "t"), strings.TrimSuffix(path, ".test"))
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	require.Greater(t, len(names), 200)
	names = slices.DeleteFunc(names, func(name string) bool { return !selected(name) })
	first := func(name string) int { return slices.Index([]string{"infoschema", "show"}, name) }
	slices.SortStableFunc(names, func(a, b string) int { return first(b) - first(a) })

	unpack(t, filepath.Join(dir, "s.zip"))
	t.Run("all", func(t *testing.T) { runFiles(t, dir, config, names, "_enabled") })
	t.Run("old collations", func(t *testing.T) {
		runFiles(t, dir, withoutCollations, slices.DeleteFunc(names, func(name string) bool { return !ofCollations(name) }), "_disabled")
	})
}

// suite returns the folder of TiDB's integration tests.
func suite(t *testing.T) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/pingcap/tidb").Output()
	require.NoError(t, err)
	return filepath.Join(strings.TrimSpace(string(out)), "tests", "integrationtest")
}

// unpack extracts the statistics that tests load into a folder and goes there.
func unpack(t *testing.T, file string) {
	r, err := zip.OpenReader(file)
	require.NoError(t, err)
	defer r.Close()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, r))
	t.Chdir(dir)
}

// selected reports whether a file is run. FASTDDL_SUITE names others, by patterns with commas between them.
func selected(name string) bool {
	if own := os.Getenv("FASTDDL_SUITE"); own != "" {
		return matches(strings.Split(own, ","), name)
	}
	if testing.Short() {
		return matches(short, name)
	}
	return randtest.Long() || matches(always, name) && !matches(later, name)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := filepath.Match(p, name)
		return err == nil && ok
	})
}

// ofCollations reports whether a file has results for both kinds of collations.
func ofCollations(name string) bool {
	return strings.HasPrefix(name[strings.LastIndex(name, "/")+1:], "collation")
}

// runFiles runs test files on a server of their own.
func runFiles(t *testing.T, dir, config string, names []string, collations string) {
	if len(names) == 0 {
		t.Skip("no file is selected")
	}
	file := filepath.Join(t.TempDir(), "fastddl.toml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	n := servertest.StartAsIs(t, binary, t.TempDir(), "--config", file, "--secure-file-priv", "/")
	// A plan waits for statistics, 100 ms by default, and says so where they are later: as they are on a busy machine.
	mustExec(t, n, "SET GLOBAL tidb_stats_load_sync_wait = 60000")
	statements, differences := 0, 0
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, "t", name+".test"))
			require.NoError(t, err)
			commands, err := parse(string(data))
			require.NoError(t, err)
			resultName := name
			if ofCollations(name) {
				resultName += collations
			}
			result, err := os.ReadFile(filepath.Join(dir, "r", resultName+".result"))
			require.NoError(t, err)
			database := strings.ReplaceAll(name, "/", "__")
			before := databases(t, n)
			mustExec(t, n, "CREATE DATABASE `"+database+"`")
			defer func() {
				for _, db := range databases(t, n) {
					if !slices.Contains(before, db) {
						mustExec(t, n, "DROP DATABASE `"+db+"`")
					}
				}
			}()
			r := &replay{t: t, ctx: context.Background(), addr: n.Addr, known: differencesOf(name)}
			r.run(commands, lateStatistics.ReplaceAllString(string(result), ""), database)
			statements += r.statements
			differences += r.met
			for _, d := range r.known {
				if !d.seen && !t.Failed() {
					t.Errorf("%s is as recorded now: %s", d.statement, d.why)
				}
			}
		})
	}
	t.Logf("%d statements of %d files, %d answers differ in ways that are known", statements, len(names), differences)
}

// mustExec executes a statement in a session of its own.
func mustExec(t *testing.T, n *servertest.Node, statement string) table {
	c, err := connect(t.Context(), n.Addr, "root", "", "test")
	require.NoError(t, err)
	defer c.close()
	rows, err := c.query(t.Context(), statement)
	require.NoError(t, err, statement)
	return rows
}

func databases(t *testing.T, n *servertest.Node) []string {
	var names []string
	for _, row := range mustExec(t, n, "SHOW DATABASES").rows {
		names = append(names, string(row[0]))
	}
	return names
}
