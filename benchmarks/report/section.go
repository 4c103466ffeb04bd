package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fastddl/benchmarks/result"
)

func beginMark(name string) string {
	return "<!-- " + name + ":begin, written by make " + name + " -->"
}
func endMark(name string) string { return "<!-- " + name + ":end -->" }

// replaceSection replaces what is between the marks of the named section. A
// document without the marks gets them at its end.
func replaceSection(document, name, body string) (string, error) {
	begin, end := beginMark(name), endMark(name)
	section := begin + "\n\n" + strings.TrimSpace(body) + "\n\n" + end
	from, to := strings.Index(document, begin), strings.Index(document, end)
	switch {
	case from < 0 && to < 0:
		if document != "" {
			document = strings.TrimRight(document, "\n") + "\n\n"
		}
		return document + section + "\n", nil
	case from < 0 || to < from || strings.Count(document, begin) > 1 || strings.Count(document, end) > 1:
		return "", fmt.Errorf("the marks of section %s are not one pair", name)
	}
	return document[:from] + section + document[to+len(end):], nil
}

// WriteSection replaces the named section of a document, which is made if it
// does not exist.
func WriteSection(path, name, body string) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	document, err := replaceSection(string(text), name, body)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return result.WriteFile(path, []byte(document))
}
