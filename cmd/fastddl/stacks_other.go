//go:build !unix

package main

import "io"

// dumpStacksOnSignal does nothing: there is no signal for it.
func dumpStacksOnSignal(io.Writer) (stop func()) { return func() {} }
