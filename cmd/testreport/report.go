package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json (go doc test2json); the output of a build names the
// package by ImportPath.
type event struct {
	Action, Package, Test, Output, ImportPath string
}

// name is a test, or a package by itself if test is empty.
type name struct{ pkg, test string }

// record has the results and the output of a run's tests and packages.
type record struct {
	output map[name][]string
	failed map[name]bool
}

func readFile(path string) (*record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &record{output: make(map[name][]string), failed: make(map[name]bool)}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // go itself says something
		}
		n := name{e.Package, e.Test}
		switch e.Action {
		case "output":
			r.output[n] = append(r.output[n], e.Output)
		case "build-output":
			pkg, _, _ := strings.Cut(e.ImportPath, " ")
			n = name{strings.TrimSuffix(pkg, "_test"), ""}
			r.output[n] = append(r.output[n], e.Output)
		case "fail":
			r.failed[n] = true
		}
	}
	return r, lines.Err()
}

// failure is a failed test, or a package that failed for another reason.
type failure struct {
	name
	lines []string
	seed  string
}

// mostLines is how many lines a failure has in the report, mostWidth how long they are, mostReason how long its reason is.
const mostLines, mostWidth, mostReason = 20, 240, 400

// failures returns the failed tests that have no failed test below them.
func (r *record) failures() []failure {
	var names []name
	for n := range r.failed {
		inner := false
		for other := range r.failed {
			inner = inner || other.pkg == n.pkg && other.test != n.test && (n.test == "" || strings.HasPrefix(other.test, n.test+"/"))
		}
		if !inner {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b name) int { return strings.Compare(a.pkg+" "+a.test, b.pkg+" "+b.test) })
	var out []failure
	for _, n := range names {
		f := failure{name: n, seed: r.seed(n)}
		for _, line := range r.output[n] {
			if line = strings.TrimRight(line, " \n"); !isNoise(line) {
				f.lines = append(f.lines, shorten(line))
			}
		}
		if len(f.lines) > mostLines {
			f.lines = append(f.lines[:mostLines], "...")
		}
		out = append(out, f)
	}
	return out
}

var (
	seedLine = regexp.MustCompile(`FASTDDL_SEED=\d+`)
	// repeated is before each line of a process of its own that a test repeats.
	repeated = regexp.MustCompile(`^\s*\S+\.go:\d+:\s+`)
	// logLine is one of TiDB's log, of etcd's and of zap's.
	logLine = regexp.MustCompile(`^\s*(\[20\d\d/|20\d\d-\d\d-\d\dT|\{"level)`)
	// errorLine begins testify's reason, testLine ends it.
	errorLine = regexp.MustCompile(`^Error:\s*(.*)`)
	testLine  = regexp.MustCompile(`^Test:\s`)
	// progressLine says only how a test goes on.
	progressLine = regexp.MustCompile(`^\s*(===|---|PASS|FAIL|ok|$)`)
)

func isNoise(line string) bool {
	return logLine.MatchString(repeated.ReplaceAllString(line, "")) || progressLine.MatchString(line) || strings.Contains(line, "log of the ")
}

// shorten takes the indentation of testify's tables and the end of long lines away.
func shorten(line string) string {
	line = strings.ReplaceAll(strings.TrimSpace(line), "\t", " ")
	if len(line) > mostWidth {
		line = strings.ToValidUTF8(line[:mostWidth], "") + "..."
	}
	return line
}

// reason returns the first of testify's reasons in a line, or the last line of a failure without one.
func (f *failure) reason() string {
	var words []string
	for _, line := range f.lines {
		line = repeated.ReplaceAllString(line, "")
		if m := errorLine.FindStringSubmatch(line); m != nil && words == nil {
			line = m[1]
		} else if words == nil {
			continue
		} else if testLine.MatchString(line) {
			break
		}
		words = append(words, strings.Fields(line)...)
	}
	if words == nil && len(f.lines) > 0 {
		words = strings.Fields(f.lines[len(f.lines)-1])
	}
	reason := strings.Join(words, " ")
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason], "") + "..."
	}
	return reason
}

// seed returns the last seed that the test, or the nearest test around it, has printed.
func (r *record) seed(n name) string {
	for {
		for _, line := range slices.Backward(r.output[n]) {
			if seed := seedLine.FindString(line); seed != "" {
				return seed + " "
			}
		}
		i := strings.LastIndex(n.test, "/")
		if i < 0 {
			return ""
		}
		n.test = n.test[:i]
	}
}

func (f *failure) print(out io.Writer, command string) {
	fmt.Fprintf(out, "\nFAIL %s %s\n", f.pkg, f.test)
	for _, line := range f.lines {
		fmt.Fprintf(out, "    %s\n", line)
	}
	dir, pkg := location(f.pkg)
	pattern := ""
	if f.test != "" {
		var parts []string
		for part := range strings.SplitSeq(f.test, "/") {
			if strings.HasPrefix(part, "seed=") {
				break // FASTDDL_SEED chooses it
			}
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		pattern = "-run '" + strings.Join(parts, "/") + "' "
	}
	fmt.Fprintf(out, "  again: %s%s%s %s%s\n", dir, f.seed, command, pattern, pkg)
}

// modules are the folders that are modules of their own.
var modules = []string{"benchmarks", "tests/clients", "tests/cluster", "tests/console"}

// location returns how to get to the module of a package, from the root, and the package's path there.
func location(pkg string) (dir, path string) {
	path = strings.TrimPrefix(pkg, "fastddl/")
	for _, m := range modules {
		if path == m || strings.HasPrefix(path, m+"/") {
			return "cd " + m + " && ", "." + strings.TrimPrefix(path, m)
		}
	}
	return "", "./" + path
}
