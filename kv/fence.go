package kv

import "context"

type permitKey struct{}

// WithPermit returns a context for imports that may be sent only while permit returns
// nil: as long as the caller is sure that the job is its own. Permit is cheap, does no
// I/O and may be called concurrently.
func WithPermit(ctx context.Context, permit func() error) context.Context {
	return context.WithValue(ctx, permitKey{}, permit)
}

// CheckPermit says why an import must not be sent now; nil if it may. Senders of imports
// call it right before each request: a process may have been stopped for a minute between
// any two instructions. Its error is final, the import must not be tried again.
func CheckPermit(ctx context.Context) error {
	if permit, ok := ctx.Value(permitKey{}).(func() error); ok {
		return permit()
	}
	return nil
}
