//go:build !linux

package flow

const hasPriorities = false

// lowerPriority does nothing: priorities belong to processes here.
func lowerPriority(int) {}
