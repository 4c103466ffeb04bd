// Package parallel runs work items on a number of goroutines that may change
// while they run.
package parallel
