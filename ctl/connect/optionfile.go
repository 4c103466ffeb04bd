package connect

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxIncludes is how deep option files may include others, as in MySQL.
const maxIncludes = 10

// setting is an option and its value. Bare says that it has none, not even an empty one.
type setting struct {
	name, value string
	bare        bool
	// where is the file and line, or empty for the command line.
	where string
}

// optionFiles reads option files by the rules of MySQL's my_search_option_files: groups, comments, quotes, escapes, includes.
type optionFiles struct {
	// groups are the names of the groups that are read, without brackets.
	groups []string
	// warn receives what is passed over.
	warn     func(string)
	settings []setting
}

// read reads a file. One that does not exist is an error that wraps os.ErrNotExist.
func (o *optionFiles) read(path string) error { return o.include(path, 0) }

func (o *optionFiles) include(path string, depth int) (err error) {
	if depth > maxIncludes {
		return fmt.Errorf("%s: option files include each other more than %d deep", path, maxIncludes)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("option file %s is no regular file", path)
	}
	if info.Mode().Perm()&0o002 != 0 {
		o.warn(fmt.Sprintf("option file %s is ignored: others may write it", path))
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	group, wanted := false, false
	lines := bufio.NewScanner(f)
	for number := 1; lines.Scan(); number++ {
		where := fmt.Sprintf("%s, line %d", path, number)
		line := strings.TrimLeft(lines.Text(), spaces)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '!':
			if err := o.directive(line[1:], path, depth); err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
		case line[0] == '[':
			name, _, closed := strings.Cut(line[1:], "]")
			if !closed {
				return fmt.Errorf("%s: the name of a group has no ]", where)
			}
			group, wanted = true, slices.Contains(o.groups, strings.TrimRight(name, spaces))
		case !group:
			return fmt.Errorf("%s: an option stands before the first group", where)
		case wanted:
			s := parseSetting(line)
			s.where = where
			o.settings = append(o.settings, s)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read option file %s: %w", path, err)
	}
	return nil
}

// spaces are what separates words in an option file.
const spaces = " \t\r\n\v\f"

// directive follows !include FILE and !includedir FOLDER; of a folder, the files whose names end in .cnf.
func (o *optionFiles) directive(text, from string, depth int) error {
	word, path, _ := strings.Cut(strings.Trim(text, spaces), " ")
	path = strings.Trim(path, spaces)
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(from), path)
	}
	switch {
	case path == "":
		return fmt.Errorf("!%s names no path", word)
	case word == "include":
		return o.include(path, depth+1)
	case word == "includedir":
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if filepath.Ext(e.Name()) == ".cnf" {
				if err := o.include(filepath.Join(path, e.Name()), depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return fmt.Errorf("!%s is neither !include nor !includedir", word)
}

// parseSetting parses a line of a group: NAME, or NAME = VALUE.
func parseSetting(line string) setting {
	name, value, given := strings.Cut(withoutComment(line), "=")
	name = strings.Trim(name, spaces)
	if !given {
		return setting{name: name, bare: true}
	}
	value = strings.Trim(value, spaces)
	if n := len(value); n > 1 && (value[0] == '\'' || value[0] == '"') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	return setting{name: name, value: unescape(value)}
}

// withoutComment removes what follows a # outside of quotes. Inside of quotes a backslash protects a quote.
func withoutComment(line string) string {
	var quote byte
	escaped := false
	for i := range len(line) {
		c := line[i]
		switch {
		case (c == '\'' || c == '"') && !escaped && quote == 0:
			quote = c
		case c == quote && !escaped:
			quote = 0
		case c == '#' && quote == 0:
			return line[:i]
		}
		escaped = quote != 0 && c == '\\' && !escaped
	}
	return line
}

// unescape replaces the escape sequences of a value. A backslash before another character, and one at the end, stays.
func unescape(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' || i == len(value)-1 {
			b.WriteByte(value[i])
			continue
		}
		i++
		switch c := value[i]; c {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'b':
			b.WriteByte('\b')
		case 's':
			b.WriteByte(' ')
		case '"', '\'', '\\':
			b.WriteByte(c)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}
