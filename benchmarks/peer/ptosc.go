package peer

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fastddl/sbtest"
)

// ptOSC is pt-online-schema-change of Percona Toolkit on MariaDB: it copies the
// table in chunks into a new one that has the index, with triggers that carry
// over what happens meanwhile, and swaps the two.
type ptOSC struct{ *mariaDB }

const (
	ptOSCProgram = "pt-online-schema-change"
	// ptOSCGrace is how long it may take to drop its triggers and its copy after
	// the signal to stop.
	ptOSCGrace = 20 * time.Second
)

func (ptOSC) Name() string      { return "pt-osc" }
func (ptOSC) Title() string     { return "pt-online-schema-change" }
func (ptOSC) Traits() Traits    { return Traits{Slow: true} }
func (ptOSC) Statement() string { return ptOSCProgram + " --alter 'ADD INDEX ...'" }

func (ptOSC) Available() error {
	if _, err := findProgram(ptOSCProgram); err != nil {
		return fmt.Errorf("%w (Debian: percona-toolkit)", err)
	}
	return nil
}

func (ptOSC) Prepare(context.Context) error { return nil }

func (p ptOSC) AddIndex(ctx context.Context, c Case) error {
	program, err := findProgram(ptOSCProgram)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "--execute", "--alter", c.mysqlAdd(),
		"--no-version-check", "--recursion-method=none", "--no-check-replication-filters", "--no-check-unique-key-change",
		fmt.Sprintf("h=127.0.0.1,P=%d,u=root,D=%s,t=%s,A=utf8mb4", p.port, database, sbtest.Table))
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = ptOSCGrace
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), errors.Join(ctx.Err(), err), lastLines(string(out)))
	}
	return nil
}

// DropIndex also drops the triggers and tables that a failed run has left.
func (p ptOSC) DropIndex(ctx context.Context, c Case) error {
	for _, event := range []string{"ins", "upd", "del"} {
		name := strings.Join([]string{"pt_osc", database, sbtest.Table, event}, "_")
		if err := p.client.exec(ctx, "DROP TRIGGER IF EXISTS "+name); err != nil {
			return err
		}
	}
	if err := p.client.exec(ctx, "DROP TABLE IF EXISTS _"+sbtest.Table+"_new, _"+sbtest.Table+"_old"); err != nil {
		return err
	}
	return p.client.dropIndexes(ctx, c.Indexes)
}
