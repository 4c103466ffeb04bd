package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

const (
	// dataFolder has the engine's files.
	dataFolder = "data"
	// title begins the metadata; the number of their format follows. The second line has the checksum of the rest.
	title = "fastddl backup format "
	// format is the format of backups that this version reads and writes. It grows with every change by which a
	// version that does not know it would restore something wrongly.
	format = 1
	// lostAndFound is a folder that file systems have in their root.
	lostAndFound = "lost+found"
)

// ErrNotABackup is returned for a folder that holds something else, or an interrupted backup.
var ErrNotABackup = errors.New("backup: folder does not hold a backup")

// Metadata is what a backup says of itself.
type Metadata struct {
	// TS is the timestamp that the backup is as of.
	TS uint64 `json:"ts"`
	// Begun and Ended say when it was taken.
	Begun time.Time `json:"begun"`
	Ended time.Time `json:"ended"`
	// StoreID is the id of the store that it was taken of, StoreFormat the format of that.
	StoreID     string `json:"store_id"`
	StoreFormat int    `json:"store_format"`
	// Version is that of fastddl.
	Version string `json:"fastddl_version"`
	// Files are those in dataFolder.
	Files []File `json:"files"`
}

// File is one of the engine's files.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// CRC is the CRC-32C of the whole file; nil for a table that was linked, not read.
	CRC *uint32 `json:"crc32c,omitempty"`
}

// Bytes is the size of all files together.
func (m *Metadata) Bytes() (sum int64) {
	for _, f := range m.Files {
		sum += f.Size
	}
	return sum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (m *Metadata) encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	return append(fmt.Appendf(nil, "%s%d\ncrc32c %08x\n", title, format, crc32.Checksum(text, castagnoli)), text...), nil
}

// decode takes the metadata of the backup in dir apart. Those of another format are refused, and those of a store of another one.
func decode(dir string, content []byte) (*Metadata, error) {
	first, rest, _ := strings.Cut(string(content), "\n")
	text, ok := strings.CutPrefix(first, title)
	found, err := strconv.Atoi(text)
	switch {
	case !ok || err != nil:
		return nil, fmt.Errorf("%w: unknown content in %s", ErrNotABackup, filepath.Join(dir, pebblekv.BackupFile))
	case found != format:
		return nil, fmt.Errorf("%w: the backup in %s has format %d, this version reads %d: restore it with the version that took it", kv.ErrFormat, dir, found, format)
	}
	sum, text, _ := strings.Cut(rest, "\n")
	if sum != fmt.Sprintf("crc32c %08x", crc32.Checksum([]byte(text), castagnoli)) {
		return nil, damaged(dir, "its checksum is another: %q", sum)
	}
	m := new(Metadata)
	if err := json.Unmarshal([]byte(text), m); err != nil {
		return nil, damaged(dir, "%v", err)
	}
	if m.StoreFormat != pebblekv.Format {
		return nil, fmt.Errorf("%w: the backup in %s is of a store of format %d, this version reads %d: restore it with the version that took it",
			kv.ErrFormat, dir, m.StoreFormat, pebblekv.Format)
	}
	for _, f := range m.Files {
		if f.Name != filepath.Base(f.Name) || f.Name == "." || f.Name == ".." || f.Size < 0 {
			return nil, damaged(dir, "file %q of %d bytes", f.Name, f.Size)
		}
	}
	return m, nil
}

func damaged(dir, message string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", kv.ErrDamaged, filepath.Join(dir, pebblekv.BackupFile), fmt.Sprintf(message, args...))
}

// Read reads the metadata of the backup in dir.
func Read(dir string) (*Metadata, error) {
	content, err := os.ReadFile(filepath.Join(dir, pebblekv.BackupFile))
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return nil, fmt.Errorf("backup: reading the backup in %s: %w", dir, err)
		}
		return decode(dir, content)
	}
	names, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotABackup, err)
	case len(names) == 0:
		return nil, fmt.Errorf("%w: %s is empty", ErrNotABackup, dir)
	}
	for _, name := range names {
		if name.Name() == dataFolder && name.IsDir() {
			return nil, fmt.Errorf("%w: the backup in %s has not ended, or was interrupted: there is no %s", ErrNotABackup, dir, pebblekv.BackupFile)
		}
	}
	return nil, fmt.Errorf("%w: %s has no %s", ErrNotABackup, dir, pebblekv.BackupFile)
}
