package clients

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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
	dir, err := installedOnce(pythonPackages, func(dir string) error {
		if err := install("", "python3", "-m", "venv", dir); err != nil {
			return err
		}
		return pip(pythonIn(dir), pythonPackages...)
	})
	return pythonIn(dir), err
})

func pythonIn(dir string) string { return filepath.Join(dir, "bin", "python") }

// installedOnce returns the folder that install has filled with packages, in this run of the tests or in an earlier one. It is
// part of what make builds, so make clean removes it.
func installedOnce(packages []string, install func(dir string) error) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(packages, "\n")))
	name := hex.EncodeToString(sum[:8])
	dir := filepath.Join(installed, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(installed, 0o755); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(installed, name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(unfinished)
	if err := install(unfinished); err != nil {
		return "", err
	}
	// Another run may have been faster.
	if err := os.Rename(unfinished, dir); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return "", err
	}
	return dir, nil
}

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
	dir, err := installedOnce([]string{mysqlclient}, func(dir string) error { return pip(interpreter, "--target", dir, mysqlclient) })
	if err != nil {
		t.Skip(err)
	}
	dbapi(t, interpreter, "MySQLdb", "PYTHONPATH="+dir)
}

func dbapi(t *testing.T, interpreter, driver string, env ...string) {
	n := startServer(t)
	cmd := command(t, interpreter, append([]string{program(t, "python", "dbapi.py"), driver}, target(t, n)...)...)
	cmd.Env = append(os.Environ(), env...)
	runClient(t, cmd)
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
	dir, err := installedOnce([]string{connectorJ}, func(dir string) error {
		return install(dir, "mvn", "-q", "-B", mavenCopy, "-Dartifact="+connectorJ, "-DoutputDirectory="+dir)
	})
	if err != nil {
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
	dir, err := installedOnce([]string{mysql2}, func(dir string) error {
		// Without a file of its own npm would look for a project above the folder.
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600); err != nil {
			return err
		}
		options := []string{"install", "--no-save", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=0", "--fetch-timeout=15000"}
		return install(dir, "npm", append(options, mysql2)...)
	})
	if err != nil {
		t.Skip(err)
	}
	n := startServer(t)
	cmd := command(t, "node", append([]string{program(t, "node", "client.mjs")}, target(t, n)...)...)
	cmd.Dir = dir
	runClient(t, cmd)
	requireAlive(t, n)
}
