package idle

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// separate has a command start in a session of its own.
func separate(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	return nil
}

// Memory returns the resident memory of the process in bytes, now and at most so far. The greatest peak is remembered:
// after the end of the process it is that of the last call. The resource usage that Wait gets from the kernel is not
// used, as it includes the memory of the server at the moment of Start.
func (p *Process) Memory() (now, peak int64, err error) {
	now, peak, err = kernel.memory(p.Pid())
	for {
		known := p.peak.Load()
		if peak <= known {
			return now, known, err
		}
		if p.peak.CompareAndSwap(known, peak) {
			return now, peak, err
		}
	}
}

func (t tree) memory(pid int) (now, peak int64, err error) {
	f, err := os.Open(t.proc(pid, "status"))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if key != "VmRSS" && key != "VmHWM" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
		}
		if key == "VmRSS" {
			now = n << 10
		} else {
			peak = n << 10
		}
	}
	return now, peak, nil
}
