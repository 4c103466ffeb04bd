//go:build !linux

package stage

import "time"

// threadCPU is not available on this system: stages report wall time only.
func threadCPU() time.Duration { return 0 }

// ProcessCPU is not available on this system.
func ProcessCPU() time.Duration { return 0 }
