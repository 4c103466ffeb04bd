package idle

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"fastddl/internal/errs"
)

// Process is a process that Start has started.
type Process struct {
	cmd *exec.Cmd
	// notes say what the kernel has refused, and why.
	notes []string
	// group is the folder of its control group, or empty.
	group string
	// oom counts what the kernel has killed in its groups for lack of memory.
	oom       oomCounter
	oomKilled bool
}

// Start starts a command in a session of its own, and lowers its process before it has begun its work. It fails as cmd.Start does.
// Attributes of the command stay; a context kills the process when it ends. Wait has to be called.
func Start(cmd *exec.Cmd, opts Options) (*Process, error) {
	if err := separate(cmd); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd}
	if opts.Group {
		var err error
		if p.group, err = kernel.makeGroup(); err != nil {
			p.notes = append(p.notes, "no control group: "+err.Error())
		}
	}
	p.oom = kernel.newOOMCounter(p.group)
	if err := cmd.Start(); err != nil {
		return nil, p.notStarted(err)
	}
	p.notes = append(p.notes, kernel.lower(p.Pid(), p.group, opts.Class)...)
	return p, nil
}

// Means returns those of the process, with what is missing. It fails if the process has ended.
func (p *Process) Means() (Means, error) {
	m, err := kernel.means(p.Pid())
	m.Notes = p.notes
	return m, err
}

// notStarted removes the control group of a process that could not be started.
func (p *Process) notStarted(err error) error {
	if p.group == "" {
		return err
	}
	return errs.Combine(err, kernel.removeGroup(p.group))
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process at once, also a stopped one. It fails if the process has ended.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Wait waits until the process has ended, and returns what cmd.Wait does. The control group of the process is then
// removed; one that cannot be, by the next Start.
func (p *Process) Wait() error {
	err := p.cmd.Wait()
	p.oomKilled = p.signal() == syscall.SIGKILL && p.oom.grown()
	if p.group != "" {
		_ = kernel.removeGroup(p.group) // the next Start tries again, and its process notes the error
	}
	return err
}

// signal returns the signal that ended the process, or -1.
func (p *Process) signal() syscall.Signal {
	if state := p.cmd.ProcessState; state != nil {
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return status.Signal()
		}
	}
	return -1
}

// KilledByOOM reports, after Wait, whether the kernel has killed the process for lack of memory, as far as this can be
// known: it ended by SIGKILL, and the kernel has meanwhile killed a process of the same memory control group for that reason. Where
// groups do not count, all of the machine's count. So a SIGKILL of an operator, or of Kill, is taken for it only beside another process's
// death; which of two came first cannot be known, and who sees the connection end calls Kill. A runtime that gets no memory ends the
// process by itself, with exit status 2.
func (p *Process) KilledByOOM() bool { return p.oomKilled }

// hasEnded reports whether an error means that a process, its thread or its group is no more.
func hasEnded(err error) bool {
	for _, is := range []error{os.ErrProcessDone, fs.ErrNotExist, syscall.ESRCH, syscall.ENODEV} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}
