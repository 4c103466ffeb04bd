package tidbsuite

import (
	"fmt"
	"regexp"
	"strings"
)

// command is one step of a test file: a statement if name is empty, otherwise
// a command of mysql-tester with its arguments.
type command struct {
	name, text string
	line       int
}

// bare are the commands that are written without dashes, too.
var bare = map[string]bool{"connect": true, "connection": true, "disconnect": true}

// parse reads a test file. Lines are trimmed and empty ones dropped; # begins
// a comment, -- a command; a statement ends with the line that ends in a semicolon.
func parse(file string) ([]command, error) {
	var commands []command
	open := false // whether the last one is a statement that goes on
	for i, line := range strings.Split(file, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			open = false
			continue
		case strings.HasPrefix(line, "--"):
			name, text := cutWord(strings.TrimSpace(line[2:]))
			commands = append(commands, command{name, strings.TrimSpace(text), i + 1})
			open = false
			continue
		case line == "":
			continue
		}
		if open {
			commands[len(commands)-1].text += "\n" + line
		} else {
			commands = append(commands, command{text: line, line: i + 1})
		}
		open = !strings.HasSuffix(line, ";")
	}
	kept := commands[:0]
	for _, c := range commands {
		if c.name == "" && len(c.text) < 3 {
			continue // a semicolon on its own
		}
		if name, text := cutWord(c.text); c.name == "" && bare[name] {
			c.name, c.text = name, strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), ";"))
		}
		if c.name != "" && !known[c.name] {
			return nil, fmt.Errorf("line %d: command %q is not known", c.line, c.name)
		}
		kept = append(kept, c)
	}
	return kept, nil
}

// known are the commands that replay carries out.
var known = map[string]bool{
	"connect": true, "connection": true, "disconnect": true, "echo": true, "error": true,
	"enable_info": true, "disable_info": true, "enable_warnings": true, "disable_warnings": true,
	"enable_result_log": true, "disable_result_log": true,
	"sorted_result": true, "replace_regex": true, "replace_column": true,
}

// cutWord separates the first word from the rest.
func cutWord(s string) (word, rest string) {
	i := strings.IndexAny(s, " (;\n")
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

// replacement is one pair of --replace_regex.
type replacement struct {
	pattern *regexp.Regexp
	with    string
}

var unescape = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\/`, "/", `\\`, `\`)

// parseReplacements reads the argument of --replace_regex: groups of /pattern/replacement/.
func parseReplacements(s string) ([]replacement, error) {
	var slashes []int
	for i := range len(s) {
		if s[i] == '/' && (i == 0 || s[i-1] != '\\') {
			slashes = append(slashes, i)
		}
	}
	if len(slashes)%3 != 0 {
		return nil, fmt.Errorf("--replace_regex %s: a group has three slashes", s)
	}
	var out []replacement
	for ; len(slashes) > 0; slashes = slashes[3:] {
		pattern, err := regexp.Compile(s[slashes[0]+1 : slashes[1]])
		if err != nil {
			return nil, fmt.Errorf("--replace_regex %s: %w", s, err)
		}
		out = append(out, replacement{pattern, unescape.Replace(s[slashes[1]+1 : slashes[2]])})
	}
	return out, nil
}
