//go:build !linux

package stage

import "time"

// ThreadCPU is not available on this system: stages report wall time only.
func ThreadCPU() time.Duration { return 0 }

// ProcessCPU is not available on this system.
func ProcessCPU() time.Duration { return 0 }
