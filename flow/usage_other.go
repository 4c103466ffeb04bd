//go:build !linux

package flow

import "time"

// Nothing of this is known here.

func forEachThread(func(id int, low bool, total ThreadTime)) {}

func busyTime() time.Duration { return 0 }
