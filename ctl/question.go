package ctl

import (
	"context"
	"os"
	"strings"
)

// What Ctrl-C asks. The build goes on meanwhile.
const question = "The build goes on. [c]ancel it, [p]ause it, [l]eave it running, or Enter to go on watching? "

// signalled asks what to do. By another signal than that of Ctrl-C, without a terminal, and at the second time, the user leaves.
func (f *follower) signalled(sig os.Signal) *verdict {
	if sig != os.Interrupt || f.Lines == nil || f.asking {
		return &verdict{outcome: outcomeLeft}
	}
	if f.lines == nil {
		f.lines = f.Lines()
	}
	f.asking = true
	f.view.ask(question)
	return nil
}

// answered does what the user has answered. What is typed without a question has no effect.
func (f *follower) answered(ctx context.Context, line string) *verdict {
	if !f.asking {
		return nil
	}
	f.asking = false
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "":
		return nil
	case "l", "leave":
		return &verdict{outcome: outcomeLeft}
	case "c", "cancel":
		if err := f.command(ctx, "CANCEL"); err != nil {
			f.note("not cancelled: %s", message(err))
			return nil
		}
		f.note("cancelling: what was built is removed")
		return nil // until the build has ended
	case "p", "pause":
		if err := f.command(ctx, "PAUSE"); err != nil {
			f.note("not paused: %s", message(err))
			return nil
		}
		return &verdict{outcome: outcomePaused}
	}
	f.asking = true
	f.view.ask(question)
	return nil
}

func (f *follower) command(ctx context.Context, verb string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return f.builds.command(ctx, verb, f.seen)
}
