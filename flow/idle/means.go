package idle

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Means are the attributes by which the kernel keeps a process behind others, as the kernel shows them.
type Means struct {
	// Policy is the scheduling class of the threads: idle, batch or normal, or another's number. Of threads that differ
	// it is that of the one which gets most.
	Policy string
	// Nice is that thread's nice value.
	Nice int
	// Uniform says that all threads have this class and value.
	Uniform bool
	// Autogroup says that the kernel divides processors by session, so that AutogroupNice, the value of the process's
	// session, counts.
	Autogroup     bool
	AutogroupNice int
	// Group is the folder of a control group of its own, or empty. GroupWeight is its weight: idle, or a number.
	Group, GroupWeight string
	// IOClass is the I/O class of the main thread: none, realtime, best-effort or idle.
	IOClass string
	// OOMScore is what the kernel adds to the score by which it chooses what to kill, in [-1000, 1000].
	OOMScore int
	// Notes say what is missing and why, one sentence each.
	Notes []string
}

// String returns the means as one line for a log.
func (m Means) String() string {
	parts := []string{"scheduling class " + m.Policy}
	if m.Policy != policyIdle {
		parts[0] += fmt.Sprintf(" with nice value %d", m.Nice)
	}
	if !m.Uniform {
		parts[0] += " (some threads lower)"
	}
	if m.Group != "" {
		parts = append(parts, fmt.Sprintf("control group %s of weight %s", filepath.Base(m.Group), m.GroupWeight))
	}
	if m.Autogroup {
		parts = append(parts, fmt.Sprintf("autogroup nice %d", m.AutogroupNice))
	}
	parts = append(parts, "I/O class "+m.IOClass, fmt.Sprintf("OOM score %+d", m.OOMScore))
	return strings.Join(append([]string{strings.Join(parts, ", ")}, m.Notes...), "; ")
}

const policyIdle = "idle"
