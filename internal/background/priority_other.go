//go:build !linux

package background

// lowerPriority does nothing: priorities belong to processes here.
func lowerPriority(int) {}
