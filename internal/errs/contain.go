package errs

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic that was contained.
type PanicError struct {
	Value any
	// Stack is that of the goroutine at the panic.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Contain is to be deferred: it turns a panic into a *PanicError in *err.
func Contain(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}
