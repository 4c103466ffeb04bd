package member

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Options configures the membership of a node.
type Options struct {
	// Client is NewClient of etcd's.
	Client Client
	// Node is the name of this node, for people: its address.
	Node string
	// Prefix is that of all keys; empty is "/fastddl/ddl/".
	Prefix string
	// TTL is how long a node that is silent stays a member, in whole seconds; 0 is 10
	// seconds. Etcd may grant a longer one.
	TTL time.Duration
	// Logger receives what goes wrong; nil drops it.
	Logger *zap.Logger
	// Now is the clock; nil is time.Now. It must be monotonic.
	Now func() time.Time
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Prefix == "" {
		o.Prefix = "/fastddl/ddl/"
	}
	if o.TTL == 0 {
		o.TTL = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Client == nil {
		errs = append(errs, errors.New("Client is missing"))
	}
	if o.Node == "" || strings.Contains(o.Node, "/") {
		errs = append(errs, fmt.Errorf("Node %q must be a name without a slash", o.Node))
	}
	if o.TTL < time.Second || o.TTL%time.Second != 0 {
		errs = append(errs, errors.New("TTL must be whole seconds"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("member: invalid options: %w", errors.Join(errs...))
	}
	return nil
}
