package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pingcap/tidb/br/pkg/storage"
	"github.com/pingcap/tidb/pkg/lightning/mydump"
)

// opened is an open file of a dump, decompressed.
type opened struct {
	storage.ReadSeekCloser
	store storage.ExternalStorage
}

// open opens a file by TiDB's storage library.
func (f *File) open(ctx context.Context) (*opened, error) {
	store, err := storage.NewLocalStorage(filepath.Dir(f.Path))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Path, err)
	}
	meta := mydump.SourceFileMeta{Path: filepath.Base(f.Path), FileSize: f.Bytes, Compression: compressions[f.Compression]}
	if f.Format == Parquet {
		meta.Type = mydump.SourceTypeParquet
	}
	r, err := mydump.OpenReader(ctx, &meta, store, storage.DecompressConfig{ZStdDecodeConcurrency: 1})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Path, err)
	}
	return &opened{ReadSeekCloser: r, store: store}, nil
}

var compressions = map[string]mydump.Compression{
	"": mydump.CompressionNone, "gz": mydump.CompressionGZ, "zst": mydump.CompressionZStd, "snappy": mydump.CompressionSnappy,
}

// newFile describes a data file or a script.
func newFile(path string) (File, error) {
	format, compression, ok := fileFormat(path)
	if !ok {
		return File{}, fmt.Errorf("%s is no file of a dump: its name ends in none of .sql, .csv, .tsv, .parquet, with .gz, .zst or .snappy behind it at most", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err
	}
	link, err := os.Lstat(path)
	if err != nil {
		return File{}, err
	}
	return File{Path: path, Format: format, Compression: compression, Bytes: info.Size(), linked: link.Mode()&os.ModeSymlink != 0}, nil
}

// readAll returns the contents of a file of definitions.
func readAll(ctx context.Context, path string) (_ []byte, err error) {
	f, err := newFile(path)
	if err != nil {
		return nil, err
	}
	r, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	text, err := io.ReadAll(io.LimitReader(r, maxDefinitionBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(text) > maxDefinitionBytes {
		return nil, fmt.Errorf("%s is longer than the %d bytes that a file of definitions may have", path, maxDefinitionBytes)
	}
	return bytes.TrimPrefix(text, bom), nil
}

const (
	maxDefinitionBytes = 64 << 20
	// headerBytes is how much of a file with rows is read for the settings at its beginning.
	headerBytes = 64 << 10
)

var bom = []byte("\xef\xbb\xbf")

// readSettings reads the settings at the beginning of a file with SQL: what stands before its first INSERT.
//
// unlisted says that the INSERT names no columns.
func (f *File) readSettings(ctx context.Context) (unlisted bool, err error) {
	r, err := f.open(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s := newScanner(io.LimitReader(r, headerBytes))
	var set session
	defer func() { f.settings = set.settings }()
	for {
		st, err := s.next()
		cut := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) // within an INSERT that is longer than the header
		if err != nil && !cut {
			return false, fmt.Errorf("read %s: %w", f.Path, err)
		}
		if cut {
			c := classify(s.buf[s.start:s.pos])
			return c.kind == kindInsert && c.unlisted, nil
		}
		if c := classify(st.text); c.kind == kindInsert {
			return c.unlisted, nil
		}
		if err := set.take(st.text); err != nil {
			return false, fmt.Errorf("%s, line %d: %w", f.Path, st.line, err)
		}
	}
}

var (
	saved       = regexp.MustCompile(`(?i)@(\w+)\s*:?=\s*@@(?:SESSION\.|LOCAL\.)?(?:SQL_MODE|TIME_ZONE)\b`)
	oldTimeZone = regexp.MustCompile(`(?i)(?:^|[^_@\w])TIME_ZONE\s*=\s*@(\w+)`)
	oldSQLMode  = regexp.MustCompile(`(?i)(?:^|[^_@\w])SQL_MODE\s*=\s*@(\w+)`)
	setTimeZone = regexp.MustCompile(`(?i)(?:^|[^_@\w])TIME_ZONE\s*=\s*'([^']*)'`)
	setNames    = regexp.MustCompile(`(?i)\bSET\s+NAMES\s+['"]?(\w+)`)
	setSQLMode  = regexp.MustCompile(`(?i)(?:^|[^_@\w])SQL_MODE\s*=\s*['"]([^'"]*)['"]`)
)

// session is the settings of the session that a file with SQL is written for, and those that it has saved in variables: a dump
// sets others for a trigger or an event, and then those from before again.
type session struct {
	settings
	saved map[string]settings // by the variable's name in lower case
}

// take notes what a statement sets that changes the meaning of the rows behind it. What else a dump sets, keys and checks
// among it, a load decides by itself.
func (s *session) take(text []byte) error {
	if len(text) > headerBytes {
		return nil
	}
	first := lexer{text: text}
	if first.upper() != "SET" {
		return nil
	}
	for _, m := range saved.FindAllSubmatch(text, -1) {
		if s.saved == nil {
			s.saved = make(map[string]settings)
		}
		s.saved[strings.ToLower(string(m[1]))] = s.settings
	}
	if m := oldTimeZone.FindSubmatch(text); m != nil {
		s.timeZone = s.saved[strings.ToLower(string(m[1]))].timeZone
	}
	if m := oldSQLMode.FindSubmatch(text); m != nil {
		s.literalBackslash = s.saved[strings.ToLower(string(m[1]))].literalBackslash
	}
	if m := setTimeZone.FindSubmatch(text); m != nil {
		s.timeZone = string(m[1])
	}
	if m := setSQLMode.FindSubmatch(text); m != nil {
		s.literalBackslash = strings.Contains(strings.ToUpper(string(m[1])), "NO_BACKSLASH_ESCAPES")
	}
	if m := setNames.FindSubmatch(text); m != nil {
		switch names := strings.ToLower(string(m[1])); names {
		case "utf8mb4", "utf8", "utf8mb3", "ascii", "default":
			s.binary = false
		case "binary":
			s.binary = true
		default:
			return fmt.Errorf("the dump is in the character set %s: dump it again in utf8mb4 (--default-character-set=utf8mb4)", names)
		}
	}
	return nil
}
