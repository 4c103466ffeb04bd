package member

import "context"

// Cluster is what a node knows of the others.
type Cluster interface {
	// Join makes this node a member under a new name. It tries until ctx ends.
	Join(ctx context.Context) (Member, error)
	// Members returns the names of the members at some moment during the call. Who has
	// joined before the call and is not among them is none any more, and never will be
	// again; its Alive has returned false from then on at the latest.
	Members(ctx context.Context) (map[string]bool, error)
	// Changed receives when a member has gone or one has called Notify.
	Changed() <-chan struct{}
	// Notify makes Changed of all members receive. It may fail silently.
	Notify(ctx context.Context)
	// Close ends what it watches with.
	Close() error
}

// Member is a node's time as a member. All methods may be called concurrently.
type Member interface {
	// Name is that of no other member, now or ever: the name of the node, a slash, and
	// something of its own.
	Name() string
	// Alive says that the others take this node for a member. It reads the clock, each
	// time: it is false no later than for them, also if the process was stopped.
	Alive() bool
	// Gone is closed soon after Alive has become false.
	Gone() <-chan struct{}
	// Leave ends the membership. Nothing may be done as a member any more.
	Leave(ctx context.Context) error
}
