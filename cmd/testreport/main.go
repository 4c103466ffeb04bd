package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, files []string) error {
	var failed []failure
	for _, file := range files {
		r, err := readFile(file)
		if err != nil {
			return err
		}
		command, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".cmd")
		if err != nil {
			return err
		}
		for _, f := range r.failures() {
			failed = append(failed, f)
			f.print(out, strings.TrimSpace(string(command)))
		}
	}
	if len(failed) > 0 {
		fmt.Fprintf(out, "\n%d failed; all output is in %s\n", len(failed), strings.Join(files, " "))
	}
	for _, f := range failed { // last, since the end of a log is what is read first
		fmt.Fprintf(out, "FAIL %s %s: %s\n", f.pkg, f.test, f.reason())
	}
	return nil
}
