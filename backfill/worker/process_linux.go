package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"fastddl/flow"
	"fastddl/flow/idle"
	"fastddl/internal/errs"
)

const (
	// connection is the worker's file descriptor of the connection.
	connection = 3
	// counter is that of a page with the number of statements that the server executes.
	counter = 4
	// heapLimit is what Go's collector keeps the heap of a worker at: entries and blocks are not on it.
	heapLimit = 384 << 20
	// maxOutput is how much is kept of what a worker writes to standard error.
	maxOutput = 64 << 10
)

// Supported says that this system has workers.
const Supported = true

// Starter returns a function that starts the running program, with the command, as a worker: see Options.Start. The process runs when
// nothing else does, but for a least progress (package flow/idle).
func Starter(command string, statements *flow.StatementMeter, log *zap.Logger) func() (Process, net.Conn, error) {
	var mu sync.Mutex
	var shown *os.File
	page := func() (_ *os.File, err error) {
		mu.Lock()
		defer mu.Unlock()
		if shown == nil {
			shown, err = showStatements(statements)
		}
		return shown, err
	}
	var nice atomic.Bool // class idle has starved a process
	return func() (Process, net.Conn, error) {
		number, err := page()
		if err != nil {
			return nil, nil, err
		}
		own, other, err := socketPair()
		if err != nil {
			return nil, nil, err
		}
		p := &osProcess{log: log, nice: &nice, done: make(chan struct{})}
		opts := idle.Options{Group: true}
		if nice.Load() {
			opts.Class, p.isNice = idle.ClassNice, true
		}
		cmd := exec.Command("/proc/self/exe") // also if the file has been replaced meanwhile
		cmd.Args = []string{"fastddl", command}
		cmd.ExtraFiles = []*os.File{other, number}
		cmd.Stderr = &p.output
		p.process, err = idle.Start(cmd, opts)
		if err = errs.Combine(err, other.Close()); err != nil {
			return nil, nil, errs.Combine(err, own.Close())
		}
		p.quota = idle.NewQuota(p.process.Pid())
		ctx, cancel := context.WithCancel(context.Background())
		p.keeping.Go(func() { p.keep(ctx) })
		go func() {
			defer close(p.done)
			defer errs.Contain(&p.exit.Err)
			p.exit.Err = p.process.Wait()
			if p.starves.Load() {
				p.exit.Err = errStarves
			}
			cancel()
			p.keeping.Wait()
			p.exit.OutOfMemory = p.process.KilledByOOM() || strings.Contains(p.output.String(), "out of memory")
			p.exit.Output = p.output.firstLine()
			if p.exit.Err != nil && p.output.String() != "" {
				log.Warn("a build worker has ended", zap.Int("process", p.process.Pid()), zap.Error(p.exit.Err), zap.String("output", p.output.String()))
			}
		}()
		return p, own, nil
	}
}

// pageBytes is the size of the page with the number of statements.
const pageBytes = 4096

// showStatements returns a file in memory that has the number of statements that run at its beginning. It is the process's as long as that
// runs.
func showStatements(statements *flow.StatementMeter) (*os.File, error) {
	fd, err := unix.MemfdCreate("fastddl-statements", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a page for the number of statements: %w", err)
	}
	file := os.NewFile(uintptr(fd), "statements")
	if err := file.Truncate(pageBytes); err != nil {
		return nil, errs.Combine(err, file.Close())
	}
	n, err := mapNumber(file, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, errs.Combine(err, file.Close())
	}
	statements.Show(n)
	return file, nil
}

// mapNumber maps the number at the beginning of the page in a file.
func mapNumber(file *os.File, protection int) (*atomic.Int64, error) {
	page, err := unix.Mmap(int(file.Fd()), 0, pageBytes, protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the page with the number of statements: %w", err)
	}
	return (*atomic.Int64)(unsafe.Pointer(unsafe.SliceData(page))), nil // a page is aligned
}

// socketPair returns a connection and the file of its other end.
func socketPair() (own net.Conn, other *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	file, other := os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "server")
	own, err = net.FileConn(file)
	if err = errs.Combine(err, file.Close()); err != nil {
		return nil, nil, errs.Combine(err, other.Close())
	}
	return own, other, nil
}

// osProcess is a worker that is a process.
type osProcess struct {
	process *idle.Process
	quota   *idle.Quota
	log     *zap.Logger
	// isNice says that it is not of class idle; nice, which is shared, that the next is not.
	isNice  bool
	nice    *atomic.Bool
	starves atomic.Bool
	output  output
	keeping sync.WaitGroup
	done    chan struct{} // closed when it has ended
	exit    Exit
}

// errStarves says why a process was ended.
var errStarves = errors.New("it starved in scheduling class idle, which the kernel does not let it leave: the next has nice value 10")

// keep holds the process at its least progress until ctx ends.
func (p *osProcess) keep(ctx context.Context) {
	keeper := idle.NewKeeper(p.process.Pid(), func(now idle.Progress) {
		p.log.Debug("a build worker gets", zap.Int("process", p.process.Pid()), zap.Stringer("share", now))
		if now.Starved && now.Top == 0 && !p.isNice {
			p.nice.Store(true)
			p.starves.Store(true)
			p.Kill()
		}
	})
	if err := keeper.Run(ctx); err != nil {
		p.log.Warn("a build worker has no least progress", zap.Int("process", p.process.Pid()), zap.Error(err))
	}
}

// Kill implements Process.
func (p *osProcess) Kill() {
	select {
	case <-p.done:
	default:
		_ = p.process.Kill() // it fails if the process has just ended
	}
}

// YieldsBy implements Process.
func (p *osProcess) YieldsBy() string {
	m, err := p.process.Means()
	if err != nil {
		return "" // it has ended
	}
	return m.String()
}

// Share implements Process.
func (p *osProcess) Share(workers int) float64 {
	d, err := p.quota.Sample(time.Now(), workers)
	if err != nil {
		return 1 // it has ended, or there are no quotas to be read
	}
	return d.Share
}

// Wait implements Process.
func (p *osProcess) Wait() Exit { <-p.done; return p.exit }

// output keeps the beginning of what is written to it: a panic begins with its reason.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p[:min(len(p), maxOutput-len(o.text))]...)
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

func (o *output) firstLine() string {
	line, _, _ := strings.Cut(o.String(), "\n")
	return line
}

// Main is a worker's process, which Starter has started: it does one build and returns. Gone ends the process, because its server has
// ended: a process that gets hardly any time would take long to end by itself.
func Main(ctx context.Context, gone func()) error {
	page := os.NewFile(counter, "statements")
	number, err := mapNumber(page, unix.PROT_READ)
	if err = errs.Combine(err, page.Close()); err != nil {
		return fmt.Errorf("worker: no server has started this process: %w", err)
	}
	debug.SetMemoryLimit(heapLimit)
	file := os.NewFile(connection, "server")
	conn, err := net.FileConn(file)
	if err = errs.Combine(err, file.Close()); err != nil {
		return fmt.Errorf("worker: no server has started this process: %w", err)
	}
	return Serve(ctx, conn, flow.NewMeterElsewhere(number), gone)
}
