package idle

import (
	"errors"
	"path/filepath"
)

// oomCounter counts the processes of some control groups that the kernel has killed for lack of memory.
type oomCounter struct {
	files []string
	// before is the count when the process was started.
	before uint64
}

// newOOMCounter counts kills in the server's memory control group and in that of a process of its own, or on the whole machine
// where neither counts.
func (t tree) newOOMCounter(group string) (c oomCounter) {
	candidates := []string{filepath.Join(group, "memory.events")}
	if group == "" {
		candidates = nil
	}
	if m, err := t.membership(0, "memory"); err == nil {
		file := "memory.events"
		if m.version == 1 {
			file = "memory.oom_control"
		}
		for _, dir := range m.chain() {
			if exists(filepath.Join(dir, file)) {
				candidates = append(candidates, filepath.Join(dir, file))
				break
			}
		}
	}
	for _, file := range candidates {
		if _, err := readField(file, "oom_kill"); err == nil {
			c.files = append(c.files, file)
		}
	}
	if len(c.files) == 0 {
		c.files = []string{t.path("proc/vmstat")}
	}
	c.before = c.count()
	return c
}

// count returns the sum of the counts that can be read.
func (c oomCounter) count() (sum uint64) {
	for _, file := range c.files {
		if n, err := readField(file, "oom_kill"); err == nil {
			sum += n
		}
	}
	return sum
}

// grown reports whether a process was killed since the process was started.
func (c oomCounter) grown() bool { return c.count() > c.before }

// errKilledTogether means that the OOM score is of no use.
var errKilledTogether = errors.New("the kernel kills all processes of the control group, and the server, when one gets no memory (memory.oom.group)")

// killedTogether returns an error if a control group of the process is killed as a whole, as Kubernetes has it.
func (t tree) killedTogether(pid int) error {
	m, err := t.membership(pid, "memory")
	if err != nil || m.version != 2 {
		return nil // without groups there is none, and version 1 kills processes
	}
	for _, dir := range m.chain() {
		if hasWord(filepath.Join(dir, "memory.oom.group"), "1") {
			return errKilledTogether
		}
	}
	return nil
}
