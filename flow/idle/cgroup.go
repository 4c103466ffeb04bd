package idle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tree is the part of the file system in which the kernel shows processes and control groups.
// Tests have one of their own, whose mkdir does what the kernel's does.
type tree struct {
	root         string
	mkdir, rmdir func(path string) error
}

// kernel is the real tree.
var kernel = tree{root: "/", mkdir: func(p string) error { return os.Mkdir(p, 0o755) }, rmdir: os.Remove}

// path returns a path of the tree.
func (t tree) path(elem ...string) string {
	return filepath.Join(append([]string{t.root}, elem...)...)
}

// proc returns the path of a file of a process. pid 0 is the calling process.
func (t tree) proc(pid int, elem ...string) string {
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	return t.path(append([]string{"proc", name}, elem...)...)
}

// membership is the group of a process in the hierarchy of a controller.
type membership struct {
	// version is that of the hierarchy, 1 or 2.
	version int
	// dir is the folder of the group, mount that of the topmost visible group.
	dir, mount string
	// top says that dir is the root of all groups, not only of those that a container sees.
	top bool
	// outside says that the group is not visible. dir is then the mount.
	outside bool
}

// errNoHierarchy means that a controller is mounted nowhere.
var errNoHierarchy = errors.New("no control groups are mounted")

// initialNamespace is the link of the namespace in which paths of groups begin at the root of all.
const initialNamespace = "cgroup:[4026531835]"

// membership returns the group of a process in the hierarchy that has a controller in version 1, and else in that of
// version 2, of which a group does not always have the controller (governing).
func (t tree) membership(pid int, controller string) (membership, error) {
	lines, err := os.ReadFile(t.proc(pid, "cgroup"))
	if err != nil {
		return membership{}, fmt.Errorf("read the control groups of process %d: %w", pid, err)
	}
	mounts, err := t.mounts()
	if err != nil {
		return membership{}, err
	}
	var unified *membership
	for line := range strings.Lines(string(lines)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // hierarchy:controllers:path
		if len(parts) != 3 {
			continue
		}
		version := 1
		if parts[0] == "0" && parts[1] == "" {
			version = 2
		} else if !slices.Contains(strings.Split(parts[1], ","), controller) {
			continue
		}
		for _, m := range mounts {
			if m.version != version || (version == 1 && !slices.Contains(m.controllers, controller)) {
				continue
			}
			found := t.resolve(m, parts[2])
			if version == 1 {
				return found, nil
			}
			unified = &found
			break
		}
	}
	if unified == nil {
		return membership{}, errNoHierarchy
	}
	return *unified, nil
}

// resolve returns the group with a path of /proc/PID/cgroup in a mount.
func (t tree) resolve(m mount, group string) membership {
	found := membership{version: m.version, mount: t.path(m.dir), dir: t.path(m.dir)}
	rel, below := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if !below || (rel != "" && rel[0] != '/') || strings.HasPrefix(group, "/..") {
		found.outside = true
		return found
	}
	found.dir = filepath.Join(found.mount, filepath.FromSlash(path.Clean("/"+rel)))
	namespace, err := os.Readlink(t.path("proc/self/ns/cgroup"))
	// Before namespaces all paths began at the root.
	initial := namespace == initialNamespace || errors.Is(err, fs.ErrNotExist)
	found.top = group == "/" && initial
	return found
}

// governing returns the group by which the kernel divides processor time: of version 2 the nearest
// that has the controller.
func (m membership) governing() membership {
	if m.version == 1 {
		return m
	}
	for !hasWord(filepath.Join(m.dir, "cgroup.controllers"), "cpu") && m.dir != m.mount {
		m.dir = filepath.Dir(m.dir)
	}
	if m.dir == m.mount && !m.outside {
		// The root of all groups is the only one without a type.
		_, err := os.Stat(filepath.Join(m.dir, "cgroup.type"))
		m.top = errors.Is(err, fs.ErrNotExist)
	}
	return m
}

// chain returns the folders of a group and of those above it that are visible.
func (m membership) chain() []string {
	dirs := []string{m.dir}
	for dir := m.dir; dir != m.mount; {
		dir = filepath.Dir(dir)
		dirs = append(dirs, dir)
	}
	return dirs
}

// mount is a mounted hierarchy of groups.
type mount struct {
	version     int
	dir, root   string // where, and which of its groups is there
	controllers []string
}

// unescape undoes the escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mounts returns the hierarchies that this process sees.
func (t tree) mounts() ([]mount, error) {
	lines, err := os.ReadFile(t.path("proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read the mounted file systems: %w", err)
	}
	var mounts []mount
	for line := range strings.Lines(string(lines)) {
		place, system, found := strings.Cut(line, " - ")
		if !found {
			continue
		}
		// id parent device root mountpoint ... - type source options
		left, right := strings.Fields(place), strings.Fields(system)
		if len(left) < 5 || len(right) < 3 {
			continue
		}
		m := mount{dir: unescape.Replace(left[4]), root: unescape.Replace(left[3]), controllers: strings.Split(right[2], ",")}
		switch right[0] {
		case "cgroup":
			m.version = 1
		case "cgroup2":
			m.version = 2
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// hasWord reports whether a file has a word. One that cannot be read has none.
func hasWord(file, word string) bool {
	text, err := os.ReadFile(file)
	return err == nil && slices.Contains(strings.Fields(string(text)), word)
}

// readText returns the text of a file of one line.
func readText(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// readField returns the number behind a key, in a file with one of each in a line.
func readField(file, key string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == key {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read %s of %s: %w", key, file, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("read %s: no %s", file, key)
}

// writeFile writes to a file of the kernel, which has to exist.
func writeFile(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
