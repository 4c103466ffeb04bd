package server

import (
	"bytes"
	"io"
)

// maxHeldBytes bounds the lines that are held. A start writes a fifth of that.
const maxHeldBytes = 1 << 20

// heldLines are lines of a log in TiDB's text format that has no file yet.
type heldLines struct {
	lines []byte
	// instead receives warnings and errors if there will be no file.
	instead io.Writer
}

func newHeldLines(instead io.Writer) *heldLines { return &heldLines{instead: instead} }

// Write implements io.Writer. What exceeds maxHeldBytes is dropped, except for warnings and errors, which then go elsewhere.
func (h *heldLines) Write(p []byte) (int, error) {
	if len(h.lines)+len(p) <= maxHeldBytes {
		h.lines = append(h.lines, p...)
		return len(p), nil
	}
	if !serious(p) {
		return len(p), nil
	}
	return h.instead.Write(p)
}

// giveUp writes what is serious elsewhere, and drops the rest.
func (h *heldLines) giveUp() error {
	for line := range bytes.Lines(h.lines) {
		if serious(line) {
			if _, err := h.instead.Write(line); err != nil {
				return err
			}
		}
	}
	h.lines = nil
	return nil
}

// serious reports whether a line is a warning or an error: [time] [LEVEL] ...
func serious(line []byte) bool {
	_, rest, _ := bytes.Cut(line, []byte("] ["))
	level, _, _ := bytes.Cut(rest, []byte("]"))
	switch string(level) {
	case "WARN", "ERROR", "FATAL", "PANIC", "DPANIC":
		return true
	}
	return false
}
