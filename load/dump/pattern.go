package dump

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// setPatterns finds for each table the pattern that matches its files and no other of their folder.
func (d *Dump) setPatterns() error {
	listed := make(map[string][]string)
	for _, t := range d.Tables {
		if len(t.Files) == 0 {
			continue
		}
		dir := filepath.Dir(t.Files[0].Path)
		if _, ok := listed[dir]; !ok {
			entries, err := os.ReadDir(dir)
			if err != nil {
				return fmt.Errorf("list %s: %w", dir, err)
			}
			for _, e := range entries {
				listed[dir] = append(listed[dir], e.Name())
			}
		}
		own := make([]string, len(t.Files))
		for i, f := range t.Files {
			own[i] = filepath.Base(f.Path)
		}
		t.pattern = patternOf(own, listed[dir])
	}
	return nil
}

// importSuffixes are the endings of files that IMPORT INTO reads on the server (supportedSuffixForServerDisk in
// pkg/executor/importer/import.go).
var importSuffixes = map[string]bool{
	".csv": true, ".sql": true, ".parquet": true, ".gz": true, ".gzip": true, ".zstd": true, ".zst": true, ".snappy": true,
}

// patternOf returns the pattern, as IMPORT INTO takes it, that matches the given files of one folder and no other of
// all; "" if there is none. A pattern of one file without special characters is its name.
func patternOf(own, all []string) string {
	first := own[0]
	if len(own) == 1 && !strings.ContainsAny(first, `*[`) {
		return usable(first)
	}
	prefix, suffix, shortest := first, "", len(first)
	if len(own) > 1 {
		suffix = first
	}
	for _, name := range own[1:] {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
		for !strings.HasSuffix(name, suffix) {
			suffix = suffix[1:]
		}
		shortest = min(shortest, len(name))
	}
	if over := len(prefix) + len(suffix) - shortest; over > 0 { // the shortest name has characters of both
		prefix = prefix[:len(prefix)-over]
	}
	pattern := escapeGlob(prefix)
	if len(own) > 1 {
		pattern += "*" + escapeGlob(suffix)
	}
	matched := 0
	for _, name := range all {
		if ok, err := filepath.Match(pattern, name); err == nil && ok {
			matched++
		}
	}
	if matched != len(own) {
		return ""
	}
	return usable(pattern)
}

// usable returns the pattern, or "" if TiDB takes it for something else: it parses the path as a URL too.
func usable(pattern string) string {
	if strings.ContainsAny(pattern, `?#\`) || !validEscapes(pattern) || !importSuffixes[strings.ToLower(filepath.Ext(pattern))] {
		return ""
	}
	return pattern
}

// escapeGlob escapes what a pattern gives a meaning.
func escapeGlob(name string) string {
	return strings.NewReplacer(`*`, `[*]`, `[`, `[[]`).Replace(name)
}

// validEscapes reports whether every % of a name is followed by two hexadecimal digits.
func validEscapes(name string) bool {
	for i := range len(name) {
		if name[i] == '%' && (i+2 >= len(name) || !isHex(name[i+1]) || !isHex(name[i+2])) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
