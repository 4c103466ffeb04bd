// Package release parses and compares the releases that the parts of a cluster report.
package release
