package explain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // registers the driver
)

// startTime is what the server gets to start, stopTime to end.
const startTime, stopTime = time.Minute, 30 * time.Second

// server is a server of the project's, in a process of its own and with a folder of its own.
type server struct {
	cmd *exec.Cmd
	dir string
	dsn string
}

// startServer starts a server in a new folder below dir.
func startServer(ctx context.Context, binary, dir string) (_ *server, err error) {
	folder, err := os.MkdirTemp(dir, "fastddl-explain-")
	if err != nil {
		return nil, fmt.Errorf("make the server's folder: %w", err)
	}
	s := &server{dir: folder}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, fmt.Errorf("make the server's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(binary, "server", "--path", filepath.Join(folder, "data"), "--host", "127.0.0.1", "-P", fmt.Sprint(port), "--status-port", "0", "-L", "warn")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	s.cmd = cmd
	s.dsn = fmt.Sprintf("root@tcp(127.0.0.1:%d)/", port)
	return s, s.await(ctx)
}

// await waits until the server answers.
func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	db, err := sql.Open("mysql", s.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop ends the server and removes its folder.
func (s *server) stop() error {
	var errs []error
	if s.cmd != nil {
		ended := make(chan error, 1)
		go func() { ended <- s.cmd.Wait() }()
		errs = append(errs, s.cmd.Process.Signal(syscall.SIGTERM))
		select {
		case <-ended:
		case <-time.After(stopTime):
			errs = append(errs, errors.New("the server had to be killed"), s.cmd.Process.Kill())
			<-ended
		}
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
