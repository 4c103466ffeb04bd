// Package remove removes folders in which a process that is about to end may still create files.
package remove

import (
	"errors"
	"syscall"
	"time"
)

// A process notices within milliseconds that it is to end, if it gets a processor.
const (
	attempts = 100
	pause    = 20 * time.Millisecond
)

// Tree calls removeAll, which removes a folder and all in it, again while a process creates files there, for two seconds at most.
func Tree(removeAll func() error) error {
	for n := 1; ; n++ {
		err := removeAll()
		if n == attempts || !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
		time.Sleep(pause)
	}
}
