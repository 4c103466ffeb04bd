package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"fastddl/config"
	"fastddl/internal/terminal"
)

// serverLogName is the log of a server that was started on a terminal, in the folder of its files.
const serverLogName = "fastddl.log"

// consolePath is that of the console on the status port.
const consolePath = "/console/"

// logFile returns the file that a server logs to if a person has started it: among its own, with its whole path.
func logFile(cfg config.Config) string {
	dir := cfg.TempDir
	if cfg.Store == config.StorePebble {
		dir = cfg.Path
	}
	file := filepath.Join(dir, serverLogName)
	if absolute, err := filepath.Abs(file); err == nil {
		return absolute
	}
	return file // as the working folder is not known
}

// storeName names a store to a person.
func storeName(cfg config.Config) string {
	if cfg.Store == config.StoreTiKV {
		return "TiKV cluster of " + cfg.Path
	}
	return "embedded store in " + cfg.Path
}

// banner is what a person wants to know of a server that has started.
type banner struct {
	config    config.Config
	addr      net.Addr
	statusURL string
}

// write writes the banner. The lines for scripts follow it.
func (b *banner) write(w io.Writer) {
	lines := [][2]string{{"store", storeName(b.config)}}
	host, port, err := net.SplitHostPort(b.addr.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if err == nil {
		lines = append(lines, [2]string{"connect", fmt.Sprintf("mysql -h %s -P %s -u root", host, port)})
		lines = append(lines, [2]string{"build", fmt.Sprintf(`fastddl ctl -h %s -P %s -D DATABASE run "ALTER TABLE t ADD INDEX ..."`, host, port)})
	}
	if b.statusURL != "" {
		lines = append(lines, [2]string{"console", b.statusURL + consolePath})
	}
	if file := b.config.Log.File.Filename; file != "" {
		lines = append(lines, [2]string{"log", file})
	}
	lines = append(lines, [2]string{"stop", "Ctrl-C"})
	var text strings.Builder
	text.WriteString(versionLine())
	for _, line := range lines {
		fmt.Fprintf(&text, "  %-8s %s\n", line[0], terminal.Clean(line[1]))
	}
	fmt.Fprintln(w, text.String())
}
