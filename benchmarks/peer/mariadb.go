package peer

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"fastddl/sbtest"
)

// mariaDB is MariaDB's server with InnoDB.
type mariaDB struct {
	Options
	dir     string
	account account
	port    int
	process *process
	client  mysqlClient
}

func newMariaDB(opts Options) *mariaDB {
	return &mariaDB{Options: opts, dir: filepath.Join(opts.Dir, "mariadb")}
}

func (m *mariaDB) Name() string { return "mariadb" }

func (m *mariaDB) server() (string, error)    { return findProgram("mariadbd", "/usr/sbin") }
func (m *mariaDB) installer() (string, error) { return findProgram("mariadb-install-db", "/usr/bin") }

func (m *mariaDB) Available() error {
	if _, err := m.server(); err != nil {
		return fmt.Errorf("%w (Debian: mariadb-server)", err)
	}
	_, err := m.installer()
	return err
}

func (m *mariaDB) Settings() []string {
	return []string{
		// Two copies of the table, which pt-online-schema-change makes, and indexes.
		fmt.Sprintf("innodb_buffer_pool_size=%dM", m.buffers(3, 0.6)),
		"innodb_log_file_size=4G",
		"innodb_log_buffer_size=64M",
		"innodb_sort_buffer_size=64M",
		"innodb_online_alter_log_max_size=8G",
		"innodb_io_capacity=10000",
		"innodb_io_capacity_max=20000",
		"innodb_flush_log_at_trx_commit=1",
		"innodb_doublewrite=ON",
		"innodb_lock_wait_timeout=50",
		"skip_log_bin",
	}
}

func (m *mariaDB) Start(ctx context.Context) error {
	program, err := m.server()
	if err != nil {
		return err
	}
	dataDir := filepath.Join(m.dir, "data")
	if _, err := os.Stat(dataDir); err != nil {
		if err := m.initialise(ctx, dataDir); err != nil {
			return err
		}
	}
	if m.port, err = freePort(); err != nil {
		return err
	}
	args := []string{
		"--no-defaults", "--datadir=" + dataDir, "--tmpdir=" + m.dir, "--socket=" + filepath.Join(m.dir, "socket"),
		"--pid-file=" + filepath.Join(m.dir, "pid"), "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", m.port),
		"--skip-name-resolve", "--local-infile=ON",
	}
	for _, s := range m.Settings() {
		args = append(args, "--"+s)
	}
	if m.process, err = startProcess(m.account.command(m.dir, program, args...), m.dir+".log", syscall.SIGTERM, syscall.SIGKILL); err != nil {
		return err
	}
	if m.client, err = dialMySQL(fmt.Sprintf("127.0.0.1:%d", m.port)); err != nil {
		return err
	}
	return m.process.awaitAnswer(ctx, m.client.db.PingContext)
}

// initialise makes a store with a root user that needs no password. A folder
// that a broken off attempt left is taken away first.
func (m *mariaDB) initialise(ctx context.Context, dataDir string) (err error) {
	installer, err := m.installer()
	if err != nil {
		return err
	}
	if m.account, err = accountFor("mysql"); err != nil {
		return err
	}
	if err := m.account.own(m.dir); err != nil {
		return err
	}
	making := dataDir + ".new"
	if err := os.RemoveAll(making); err != nil {
		return err
	}
	if err := m.account.run(ctx, m.dir, installer, "--no-defaults", "--datadir="+making, "--auth-root-authentication-method=normal",
		"--skip-name-resolve", "--tmpdir="+m.dir); err != nil {
		return err
	}
	return os.Rename(making, dataDir)
}

func (m *mariaDB) PID() int { return m.process.cmd.Process.Pid }

func (m *mariaDB) Version(ctx context.Context) (string, error) {
	return m.client.value(ctx, "SELECT VERSION()")
}

// mariaDBLoadBlocks are the blocks of rows of one LOAD DATA. Rows come in the
// order of the primary key, on one connection, which makes the densest pages.
const mariaDBLoadBlocks = 20

func (m *mariaDB) Load(ctx context.Context, g sbtest.Generator, loaded func(rows int)) error {
	if err := m.client.exec(ctx, sbtest.CreateSQL); err != nil {
		return err
	}
	err := loadInChunks(ctx, g, mariaDBLoadBlocks, 1, loaded, func(ctx context.Context, rows io.Reader) error {
		return m.client.loadData(ctx, rows, "SET unique_checks = 0")
	})
	if err != nil {
		return err
	}
	return m.client.exec(ctx, "ANALYZE TABLE "+sbtest.Table)
}

func (m *mariaDB) Warm(ctx context.Context) error { return m.client.warm(ctx) }

func (m *mariaDB) Session(ctx context.Context) (sbtest.Session, error) { return m.client.session(ctx) }

func (m *mariaDB) Stop(ctx context.Context) error {
	if m.process == nil {
		return nil
	}
	m.client.close()
	if err := m.process.stop(ctx); err != nil {
		return err
	}
	m.process = nil
	return nil
}

func (m *mariaDB) Kill() {
	if m.process != nil {
		m.client.close()
		m.process.kill()
		m.process = nil
	}
}

// inplace is InnoDB's online ADD INDEX.
type inplace struct{ *mariaDB }

func (inplace) Name() string  { return "mariadb-inplace" }
func (inplace) Title() string { return "MariaDB INPLACE" }
func (inplace) Statement() string {
	return "ALTER TABLE ... ADD INDEX ..., ALGORITHM=INPLACE, LOCK=NONE"
}
func (inplace) Traits() Traits   { return Traits{} }
func (inplace) Available() error { return nil }

func (inplace) Prepare(context.Context) error { return nil }

func (i inplace) AddIndex(ctx context.Context, c Case) error {
	return i.client.exec(ctx, "ALTER TABLE "+sbtest.Table+" "+c.mysqlAdd()+", ALGORITHM=INPLACE, LOCK=NONE")
}

func (i inplace) DropIndex(ctx context.Context, c Case) error {
	return i.client.dropIndexes(ctx, c.Indexes)
}
