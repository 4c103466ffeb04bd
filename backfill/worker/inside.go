package worker

import (
	"context"
	"net"

	"fastddl/flow"
)

// Inside returns a function that serves builds on goroutines of this process, for tests of what uses workers: see Options.Start.
func Inside(statements *flow.StatementMeter) func() (Process, net.Conn, error) {
	return inside(statements, func(c net.Conn) net.Conn { return c })
}

// inside is Inside with another end of the connection for the worker.
func inside(statements *flow.StatementMeter, wrap func(net.Conn) net.Conn) func() (Process, net.Conn, error) {
	return func() (Process, net.Conn, error) {
		server, other := net.Pipe()
		child := wrap(other)
		p := &goProcess{ends: []net.Conn{server, child}, ended: make(chan struct{})}
		go func() {
			defer close(p.ended)
			p.exit.Err = Serve(context.Background(), child, statements, nil)
		}()
		return p, server, nil
	}
}

// goProcess is a worker that runs in this process.
type goProcess struct {
	ends  []net.Conn
	ended chan struct{}
	exit  Exit
}

// Kill implements Process: it closes the connection, as the end of a process does.
func (p *goProcess) Kill() {
	for _, c := range p.ends {
		_ = c.Close()
	}
}

// Wait implements Process.
func (p *goProcess) Wait() Exit { <-p.ended; return p.exit }

// YieldsBy implements Process.
func (p *goProcess) YieldsBy() string { return "nothing" }

// Share implements Process.
func (p *goProcess) Share(int) float64 { return 1 }
