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
	total := 0
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
			total++
			f.print(out, strings.TrimSpace(string(command)))
		}
	}
	if total > 0 {
		fmt.Fprintf(out, "\n%d failed; all output is in %s\n", total, strings.Join(files, " "))
	}
	return nil
}
