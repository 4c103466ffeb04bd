package result

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// ThisMachine describes the machine, as the kernel describes it.
func ThisMachine() (Machine, error) {
	m := Machine{Cores: runtime.NumCPU()}
	kilobytes, err := lineOf("/proc/meminfo", "MemTotal")
	if err != nil {
		return m, err
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(kilobytes, " kB"), 10, 64)
	if err != nil {
		return m, fmt.Errorf("read the size of the memory: %w", err)
	}
	m.MemoryBytes = n << 10
	if m.CPU, err = lineOf("/proc/cpuinfo", "model name"); err != nil {
		m.CPU = runtime.GOARCH // not all architectures name theirs
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, err
	}
	m.Kernel = strings.TrimSpace(string(release))
	return m, nil
}

// lineOf is what follows "name:" in a file of such lines.
func lineOf(path, name string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("%s has no line %q", path, name)
}
