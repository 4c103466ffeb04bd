package kv

import "context"

// Fencer is a store that takes imports from several processes and can shut a late one
// out.
type Fencer interface {
	// Fence makes sure that no import of units in r that was sent before the call, by
	// whatever process, takes effect after it has returned: it has either happened, or
	// fails in such a way that its sender asks CheckPermit before it sends it again.
	// Imports that are sent later are not affected. It changes no data and may be
	// repeated.
	Fence(ctx context.Context, r KeyRange) error
}

type permitKey struct{}

// WithPermit returns a context for imports that may be sent only while permit returns
// nil: as long as the caller is sure that the job is its own. Permit is cheap, does no
// I/O and may be called concurrently.
func WithPermit(ctx context.Context, permit func() error) context.Context {
	return context.WithValue(ctx, permitKey{}, permit)
}

// CheckPermit says why an import must not be sent now; nil if it may. Whoever sends an
// import calls it right before, each time: a process may have been stopped for a minute
// between any two instructions. Its error is final, the import must not be tried again.
func CheckPermit(ctx context.Context) error {
	if permit, ok := ctx.Value(permitKey{}).(func() error); ok {
		return permit()
	}
	return nil
}
