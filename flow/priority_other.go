//go:build !linux

package flow

// lowerPriority does nothing: priorities belong to processes here.
func lowerPriority(int) {}
