package clients

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

const (
	// installTimeout bounds an installation, clientTimeout what a client does.
	installTimeout = time.Minute
	clientTimeout  = 10 * time.Minute
)

// Versions of packages that are installed. What they need beside them is what
// their installer takes.
var (
	pythonPackages = []string{"PyMySQL==1.1.2", "SQLAlchemy==2.0.44", "alembic==1.17.2", "Django==5.2.8"}
	mysqlclient    = "mysqlclient==2.2.7"
	connectorJ     = "com.mysql:mysql-connector-j:9.5.0"
	mysql2         = "mysql2@3.15.3"
	// mavenCopy is the plugin that fetches a file without a project.
	mavenCopy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
)

// python returns the interpreter of an environment that holds pythonPackages,
// or skips the test. All tests share the environment.
func python(t *testing.T) string {
	t.Helper()
	interpreter, err := pythonEnvironment()
	if err != nil {
		t.Skip(err)
	}
	return interpreter
}

var pythonEnvironment = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(installed, "python")
	if err := install("", "python3", "-m", "venv", dir); err != nil {
		return "", err
	}
	interpreter := filepath.Join(dir, "bin", "python")
	return interpreter, pip(interpreter, pythonPackages...)
})

func pip(interpreter string, packages ...string) error {
	args := []string{"-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--retries", "0", "--timeout", "15"}
	return install("", interpreter, append(args, packages...)...)
}

// install runs an installer in dir. Its error holds the end of what it printed.
func install(dir, name string, args ...string) error {
	if _, err := exec.LookPath(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // for children that keep its output open
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	const most = 600
	text := strings.TrimSpace(string(out))
	if len(text) > most {
		text = "..." + text[len(text)-most:]
	}
	return errors.Join(errors.New(filepath.Base(name)+" cannot install: "+text), err, ctx.Err())
}

// command prepares a program that is killed when its time is over.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	return cmd
}

// runClient runs a program that must end without an error.
func runClient(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s, ended after %s:\n%s", cmd, time.Since(start).Round(time.Millisecond), out)
}

// target are the host, the port and the database, as programs are given them.
func target(t *testing.T, n *servertest.Node) []string {
	t.Helper()
	host, port, err := net.SplitHostPort(n.Addr)
	require.NoError(t, err)
	return []string{host, port, newDatabase(t, n)}
}

// program is the absolute path of a file in testdata.
func program(t *testing.T, path ...string) string {
	t.Helper()
	absolute, err := filepath.Abs(filepath.Join(append([]string{"testdata"}, path...)...))
	require.NoError(t, err)
	return absolute
}

// requireAlive checks that the server goes on after a client.
func requireAlive(t *testing.T, n *servertest.Node) {
	t.Helper()
	require.False(t, n.Exited(), "the server has ended")
	require.NoError(t, n.Open("").Ping())
}

func TestPyMySQL(t *testing.T) {
	interpreter := python(t)
	dbapi(t, interpreter, "pymysql")
}

// TestMysqlclient needs the C client library to build against.
func TestMysqlclient(t *testing.T) {
	interpreter := python(t)
	if err := pip(interpreter, mysqlclient); err != nil {
		t.Skip(err)
	}
	dbapi(t, interpreter, "MySQLdb")
}

func dbapi(t *testing.T, interpreter, driver string) {
	n := startServer(t)
	runClient(t, command(t, interpreter, append([]string{program(t, "python", "dbapi.py"), driver}, target(t, n)...)...))
	requireAlive(t, n)
}

func TestSQLAlchemy(t *testing.T) {
	interpreter := python(t)
	n := startServer(t)
	runClient(t, command(t, interpreter, append([]string{program(t, "python", "sqlalchemy_orm.py")}, target(t, n)...)...))
	requireAlive(t, n)
}

func TestDjango(t *testing.T) {
	interpreter := python(t)
	n := startServer(t)
	to := target(t, n)
	cmd := command(t, interpreter, "run.py")
	cmd.Dir = program(t, "python", "django_site")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "DB_HOST="+to[0], "DB_PORT="+to[1], "DB_NAME="+to[2])
	runClient(t, cmd)
	requireAlive(t, n)
}

func TestConnectorJ(t *testing.T) {
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := install(dir, "mvn", "-q", "-B", mavenCopy, "-Dartifact="+connectorJ, "-DoutputDirectory="+dir); err != nil {
		t.Skip(err)
	}
	jars, err := filepath.Glob(filepath.Join(dir, "*.jar"))
	require.NoError(t, err)
	require.Len(t, jars, 1)
	n := startServer(t)
	runClient(t, command(t, "java", append([]string{"-cp", jars[0], program(t, "java", "Client.java")}, target(t, n)...)...))
	requireAlive(t, n)
}

func TestMySQL2(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	// Without a file of its own npm would look for a project above the folder.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600))
	options := []string{"install", "--no-save", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=0", "--fetch-timeout=15000"}
	if err := install(dir, "npm", append(options, mysql2)...); err != nil {
		t.Skip(err)
	}
	n := startServer(t)
	cmd := command(t, "node", append([]string{program(t, "node", "client.mjs")}, target(t, n)...)...)
	cmd.Dir = dir
	runClient(t, cmd)
	requireAlive(t, n)
}
