package server

import "errors"

// closers undoes steps in the reverse of their order.
type closers []func() error

func (c *closers) add(fn func() error) { *c = append(*c, fn) }

// close runs and forgets all steps and joins their errors.
func (c *closers) close() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}
