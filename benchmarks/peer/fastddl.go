package peer

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"fastddl/sbtest"
)

// fastDDL is this project's server.
type fastDDL struct {
	Options
	dir     string
	process *process
	client  mysqlClient
}

func newFastDDL(opts Options) *fastDDL {
	return &fastDDL{Options: opts, dir: filepath.Join(opts.Dir, "fastddl")}
}

func (f *fastDDL) Name() string { return "fastddl" }

func (f *fastDDL) Available() error {
	if _, err := os.Stat(f.FastDDL); err != nil {
		return fmt.Errorf("%s is not built: run make build", filepath.Base(f.FastDDL))
	}
	return nil
}

func (f *fastDDL) Settings() []string {
	return []string{fmt.Sprintf("tidb_ddl_reorg_worker_cnt=%d", f.Cores), "commits synced (pebble.sync=true, the default)", "all else by default"}
}

func (f *fastDDL) Start(ctx context.Context) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of a server: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	args := append([]string{
		"server", "--path", filepath.Join(f.dir, "data"), "--host", "127.0.0.1", "-P", fmt.Sprint(port), "--status-port", "0", "-L", "warn",
	}, f.FastDDLFlags...)
	cmd := account{}.command(f.dir, f.FastDDL, args...)
	cmd.Env = append(os.Environ(), f.FastDDLEnv...)
	if f.process, err = startProcess(cmd, f.dir+".log", syscall.SIGTERM, syscall.SIGKILL); err != nil {
		return err
	}
	if f.client, err = dialMySQL(fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		return err
	}
	if err := f.process.awaitAnswer(ctx, f.client.db.PingContext); err != nil {
		return err
	}
	return f.client.exec(ctx, "SET GLOBAL local_infile = 1", fmt.Sprintf("SET GLOBAL tidb_ddl_reorg_worker_cnt = %d", f.Cores))
}

func (f *fastDDL) PID() int { return f.process.cmd.Process.Pid }

// Version is the build's, and the one that the server sends clients.
func (f *fastDDL) Version(ctx context.Context) (string, error) {
	v, err := f.client.value(ctx, "SELECT VERSION()")
	if err != nil {
		return "", err
	}
	out, err := account{}.command(f.dir, f.FastDDL, "version").Output()
	if err != nil {
		return "", fmt.Errorf("fastddl version: %w", err)
	}
	build, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(string(out), "fastddl ")), " (")
	return build + ", as " + v, nil
}

// Blocks of rows that one LOAD DATA, which is one transaction, holds, and how
// many run at a time: a statement is executed by one goroutine.
const (
	fastDDLLoadBlocks  = 2
	fastDDLLoadStreams = 4
)

func (f *fastDDL) Load(ctx context.Context, g sbtest.Generator, loaded func(rows int)) error {
	if err := f.client.exec(ctx, sbtest.CreateSQL); err != nil {
		return err
	}
	return loadInChunks(ctx, g, fastDDLLoadBlocks, fastDDLLoadStreams, loaded, func(ctx context.Context, rows io.Reader) error {
		return f.client.loadData(ctx, rows)
	})
}

func (f *fastDDL) Warm(ctx context.Context) error { return f.client.warm(ctx) }

func (f *fastDDL) Session(ctx context.Context) (sbtest.Session, error) { return f.client.session(ctx) }

func (f *fastDDL) Stop(ctx context.Context) error {
	if f.process == nil {
		return nil
	}
	f.client.close()
	if err := f.process.stop(ctx); err != nil {
		return err
	}
	f.process = nil
	return nil
}

func (f *fastDDL) Kill() {
	if f.process != nil {
		f.client.close()
		f.process.kill()
		f.process = nil
	}
}

// builder is a way in which the server adds indexes: by the project's own builds,
// or by one of TiDB's, which are in the same binary.
type builder struct {
	*fastDDL
	name, title string
	// engine is fastddl_ddl_engine, fastReorg tidb_ddl_enable_fast_reorg.
	engine, fastReorg string
	traits            Traits
}

// own is the project's way.
func (f *fastDDL) own() builder {
	return builder{f, "fastddl", "fastddl", "fastddl", "ON", Traits{}}
}

// builders are all ways, the project's first.
func (f *fastDDL) builders() []System {
	return []System{
		f.own(),
		builder{f, "fastddl-tidb", "TiDB's fast reorganisation on the same store", "tidb", "ON", Traits{Slow: true, Baseline: true}},
		builder{f, "fastddl-tidb-txn", "TiDB's transactional backfill on the same store", "tidb", "OFF", Traits{Slow: true, Baseline: true}},
	}
}

func (b builder) Name() string     { return b.name }
func (b builder) Title() string    { return b.title }
func (b builder) Traits() Traits   { return b.traits }
func (b builder) Available() error { return nil }

func (b builder) Statement() string {
	if b.engine == "fastddl" {
		return "ALTER TABLE ... ADD INDEX ..."
	}
	return "fastddl_ddl_engine=tidb; tidb_ddl_enable_fast_reorg=" + b.fastReorg + "; ALTER TABLE ... ADD INDEX ..."
}

// Prepare sets what is global. Distributed tasks need fast reorganisation.
func (b builder) Prepare(ctx context.Context) error {
	return b.client.exec(ctx, "SET GLOBAL tidb_ddl_enable_fast_reorg = "+b.fastReorg, "SET GLOBAL tidb_enable_dist_task = "+b.fastReorg)
}

func (b builder) AddIndex(ctx context.Context, c Case) error {
	return b.client.inSession(ctx, "SET fastddl_ddl_engine = '"+b.engine+"'", "ALTER TABLE "+sbtest.Table+" "+c.mysqlAdd())
}

func (b builder) DropIndex(ctx context.Context, c Case) error {
	return b.client.dropIndexes(ctx, c.Indexes)
}

// tunable is the server with its own way.
type tunable struct{ builder }

func (t tunable) Available() error { return t.fastDDL.Available() }

func (t tunable) SetGlobal(ctx context.Context, name, value string) (known bool, err error) {
	err = t.client.exec(ctx, fmt.Sprintf("SET GLOBAL %s = '%s'", name, value))
	if mysqlNumber(err) == errUnknownVariable {
		return false, nil
	}
	return true, err
}
