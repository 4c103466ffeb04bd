// Package release reads and compares the releases that the parts of a cluster say they are of.
package release
