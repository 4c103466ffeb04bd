package sql_test

import (
	"fmt"
	"io"
	"strings"
)

// numbered returns lines of the numbers from 1000.
func numbered(lines int) io.Reader {
	var b strings.Builder
	for n := range lines {
		fmt.Fprintf(&b, "%d\n", 1000+n)
	}
	return strings.NewReader(b.String())
}

func manyLines() string {
	var lines strings.Builder
	for n := range 100_000 {
		fmt.Fprintf(&lines, "%d\tt%d\n", n, n%77)
	}
	return lines.String()
}
