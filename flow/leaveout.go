//go:build !benchflow

package flow

// Mechanisms that are left out: none. In builds with the tag benchflow, which make bench-flow compares, these are
// variables (leaveout_benchflow.go).
const (
	// leaveOutYield lets workers go on beside statements that are executed.
	leaveOutYield = false
	// leaveOutPriority leaves threads of the background their priority but for what the sampler tells them by.
	leaveOutPriority = false
	// leaveOutReserve reserves no processor.
	leaveOutReserve = false
	// LeaveOutCompactions lets compactions run as any other goroutine.
	LeaveOutCompactions = false
)
