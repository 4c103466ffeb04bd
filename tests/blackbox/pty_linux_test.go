package blackbox

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ptyColumns is the width of the terminals of these tests.
const ptyColumns = 80

// ptyProcess is a process on a terminal.
type ptyProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	screen *lockedBuffer
	read   chan struct{} // closed when the process has closed the terminal
}

// startOnTerminal starts the binary on a new terminal of 80 columns, which is its controlling one.
func startOnTerminal(t *testing.T, env []string, args ...string) *ptyProcess {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { master.Close() })
	var number int
	control, err := master.SyscallConn() // Fd would make it block
	require.NoError(t, err)
	require.NoError(t, control.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		require.NoError(t, err)
		require.NoError(t, unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: ptyColumns}))
	}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	p := &ptyProcess{t: t, cmd: exec.Command(binary, args...), master: master, screen: &lockedBuffer{}, read: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.Env = append(append(os.Environ(), "TERM=xterm", "COLUMNS="), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, p.cmd.Start())
	require.NoError(t, slave.Close())
	go func() {
		defer close(p.read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = p.screen.Write(buf[:n]) // it never fails
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()
		<-p.read
		if t.Failed() {
			t.Logf("the terminal:\n%q", p.screen.String())
		}
	})
	return p
}

// await waits until the terminal shows a text.
func (p *ptyProcess) await(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.screen.String(), text) }, hangTimeout, pollInterval, "%q", text)
}

const ctrlC = "\x03"

// press types keys.
func (p *ptyProcess) press(keys string) {
	p.t.Helper()
	_, err := p.master.WriteString(keys)
	require.NoError(p.t, err)
}

// exitCode waits until the process has ended.
func (p *ptyProcess) exitCode() int {
	p.t.Helper()
	_ = p.cmd.Wait() // the code says it
	<-p.read
	return p.cmd.ProcessState.ExitCode()
}

var controlSequence = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// lines returns the lines that stay on the screen, and checks that none was ever wider than the terminal: a line that is drawn again
// replaces the one before it.
func (p *ptyProcess) lines() (stay []string) {
	p.t.Helper()
	for _, line := range strings.Split(controlSequence.ReplaceAllString(p.screen.String(), ""), "\n") {
		drawn := strings.Split(strings.TrimSuffix(line, "\r"), "\r")
		for _, d := range drawn {
			if strings.Contains(d, "%") && strings.Contains(d, "[") { // a bar
				require.Less(p.t, utf8.RuneCountInString(d), ptyColumns, "%q wraps", d)
			}
		}
		stay = append(stay, drawn[len(drawn)-1])
	}
	return stay
}
