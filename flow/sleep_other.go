//go:build !linux

package flow

import "time"

func sleepThread(d time.Duration) { time.Sleep(d) }
