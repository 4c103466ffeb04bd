package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// account runs servers that refuse to run as root.
type account struct {
	credential *syscall.Credential // nil: as the benchmark itself
}

// accountFor is the first of the named accounts that exists if the benchmark
// runs as root, else the benchmark's own.
func accountFor(names ...string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range append(names, "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("account %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("account %s: %w", name, err)
		}
		return account{credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, fmt.Errorf("none of the accounts %s, nobody exists, and as root the server does not run", strings.Join(names, ", "))
}

// own makes the folder and gives it to the account.
func (a account) own(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of a server: %w", err)
	}
	if a.credential == nil {
		return nil
	}
	return os.Chown(dir, int(a.credential.Uid), int(a.credential.Gid))
}

// command is one that ends with the benchmark, however that ends, and that a
// Ctrl-C at the terminal does not reach: the benchmark ends it in order.
func (a account) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: a.credential}
	return cmd
}

// run runs a program to its end.
func (a account) run(ctx context.Context, dir, program string, args ...string) error {
	cmd := a.command(dir, program, args...)
	end := context.AfterFunc(ctx, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill() // it may have ended
		}
	})
	defer end()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), errors.Join(ctx.Err(), err), lastLines(string(out)))
	}
	return nil
}

// process is a server process.
type process struct {
	cmd     *exec.Cmd
	logPath string
	// orderly asks it to end with its data flushed, abrupt without.
	orderly, abrupt syscall.Signal

	exited  chan struct{}
	exitErr error // after exited
}

// startProcess starts a command that logs into a file beside its folder.
func startProcess(cmd *exec.Cmd, logPath string, orderly, abrupt syscall.Signal) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the log of a server: %w", err)
	}
	defer log.Close() // the process has its own handle
	cmd.Stdout, cmd.Stderr = log, log
	p := &process{cmd: cmd, logPath: logPath, orderly: orderly, abrupt: abrupt, exited: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.exitErr = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

const (
	startTimeout = 2 * time.Minute
	answerPause  = 50 * time.Millisecond
)

// awaitAnswer calls ask until it succeeds, the process ends or it takes too long.
func (p *process) awaitAnswer(ctx context.Context, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(answerPause):
		case <-p.exited:
			return fmt.Errorf("the server ended: %w: %s", errors.Join(p.exitErr, err), p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w: %s", errors.Join(ctx.Err(), err), p.logTail())
		}
	}
}

// stop asks the process to end in order and waits for it until ctx ends.
func (p *process) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(p.orderly); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the server: %w", err)
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server does not stop: %w: %s", ctx.Err(), p.logTail())
	}
}

// killGrace is how long an abrupt end may take.
const killGrace = 5 * time.Second

func (p *process) kill() {
	_ = p.cmd.Process.Signal(p.abrupt) // it may have ended
	select {
	case <-p.exited:
	case <-time.After(killGrace):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
	}
}

func (p *process) logTail() string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text))
}

// lastLines are the last lines of a log, enough to see why a server ended.
func lastLines(text string) string {
	const lines = 8
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// freePort is a port on which no process listens now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// findProgram looks for a program in the path and in the given folders, which
// may have wildcards; of several the last by name counts.
func findProgram(name string, folders ...string) (string, error) {
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, name))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed", name)
	}
	return path, nil
}
