package pebblekv

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/kv"
)

const (
	// markerFile marks a store's folder.
	markerFile = "FASTDDL-STORE"
	// markerTitle begins the marker; the format's number follows.
	markerTitle = "fastddl pebblekv format "
	// storeFormat is the format that this version reads and writes: of the folder, of the store's own
	// records and of those that package kv/embedded keeps in it. It grows with every change by which a
	// version that does not know it would read something wrongly. Format 1 is that of the SQL layer
	// before TiDB's. The engine's files have a format of their own, see checkEngineFormat.
	storeFormat = 2
	// idBytes is the length of a store's id before it is written in hex.
	idBytes = 16
)

// marker is what the marker file says: one line with the format, then lines of a
// name and a value.
type marker struct {
	// id names the store for good.
	id string
	// ready says that the engine's files have been made. Until then there is
	// nothing in the store; from then on a missing file is a loss.
	ready bool
	// relaxed says that the log is not synced, so that a crash of the machine may
	// leave holes in it.
	relaxed bool
}

func newMarker() (marker, error) {
	id := make([]byte, idBytes)
	if _, err := rand.Read(id); err != nil {
		return marker{}, fmt.Errorf("pebblekv: making the store's id: %w", err)
	}
	return marker{id: hex.EncodeToString(id)}, nil
}

func (m marker) encode() []byte {
	state, log := "new", "synced"
	if m.ready {
		state = "ready"
	}
	if m.relaxed {
		log = "relaxed"
	}
	return fmt.Appendf(nil, "%s%d\nid %s\nstate %s\nlog %s\n", markerTitle, storeFormat, m.id, state, log)
}

// decodeMarker takes the content of the marker file name apart. Stores of another
// format are refused.
func decodeMarker(name, content string) (marker, error) {
	title, rest, _ := strings.Cut(content, "\n")
	text, ok := strings.CutPrefix(title, markerTitle)
	format, err := strconv.Atoi(text)
	known := ok && err == nil
	switch {
	case known && format == storeFormat:
	case known && format == 1, !ok && strings.HasPrefix(title, "fastddl"):
		return marker{}, fmt.Errorf("%w: %s was written by an earlier version of fastddl (format 1), "+
			"before its SQL layer was TiDB's: dump it with that version, and load the dump into a new store",
			kv.ErrFormat, filepath.Dir(name))
	case known && format > storeFormat:
		return marker{}, laterFormat(filepath.Dir(name), "format", format, storeFormat)
	case ok:
		return marker{}, fmt.Errorf("%w: %s has format %q, this version reads %d: open it with the version that wrote it",
			kv.ErrFormat, filepath.Dir(name), text, storeFormat)
	default:
		return marker{}, fmt.Errorf("%w: unknown content %q in %s", kv.ErrNotAStore, title, name)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(rest) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		fields[key] = value
	}
	m := marker{id: fields["id"], ready: fields["state"] == "ready", relaxed: fields["log"] == "relaxed"}
	if id, err := hex.DecodeString(m.id); err != nil || len(id) != idBytes || !m.ready && fields["state"] != "new" {
		return marker{}, fmt.Errorf("%w: %s is damaged: %q", kv.ErrNotAStore, name, content)
	}
	return m, nil
}

// laterFormat refuses a store of a later version.
func laterFormat(path, what string, found, known int) error {
	return fmt.Errorf("%w: %s was written by a later version of fastddl: %s %d, this version reads up to %d: open it with that version",
		kv.ErrFormat, path, what, found, known)
}

// readMarker reads the marker of the store in path.
func readMarker(fsys vfs.FS, path string) (marker, error) {
	name := filepath.Join(path, markerFile)
	f, err := fsys.Open(name)
	if err != nil {
		return marker{}, fmt.Errorf("pebblekv: opening %s: %w", name, err)
	}
	content, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return marker{}, fmt.Errorf("pebblekv: reading %s: %w", name, err)
	}
	return decodeMarker(name, string(content))
}

// writeMarker replaces the marker of the store in path, durably.
func writeMarker(fsys vfs.FS, path string, m marker) error {
	name := filepath.Join(path, markerFile)
	if err := replaceFile(fsys, name, m.encode()); err != nil {
		return fmt.Errorf("pebblekv: writing %s: %w", name, err)
	}
	return nil
}

// ensureMarker returns the marker of the store in path. A new store gets one
// before anything else is put into its folder.
func ensureMarker(fsys vfs.FS, path string) (marker, error) {
	if _, err := fsys.Stat(filepath.Join(path, markerFile)); !errors.Is(err, fs.ErrNotExist) {
		return readMarker(fsys, path)
	}
	m, err := newMarker()
	if err != nil {
		return marker{}, err
	}
	return m, writeMarker(fsys, path, m)
}

// replaceFile writes a file as a whole or not at all, durably.
func replaceFile(fsys vfs.FS, name string, content []byte) error {
	tmp := name + tmpSuffix
	f, err := fsys.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	return syncDir(fsys, filepath.Dir(name))
}
