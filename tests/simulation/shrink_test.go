package simulation

import (
	"fmt"
	"slices"
	"strings"
)

// gist is what a finding says before its numbers.
func (v *violation) gist() string {
	text := v.String()
	if at := strings.IndexAny(text[2:], "0123456789"); at >= 0 {
		return text[:2+at]
	}
	return text
}

// shrink returns a shorter history that breaks the same: parts are left out as long as
// the finding stays, until every event is needed.
func (w *world) shrink(h history, found *violation) history {
	breaks := func(events []event) bool {
		v := w.run(history{h.cfg, events})
		return v != nil && v.gist() == found.gist()
	}
	for size := len(h.events) / 2; size > 0; {
		smaller := false
		for from := 0; from < len(h.events); {
			to := min(from+size, len(h.events))
			if without := slices.Concat(h.events[:from], h.events[to:]); breaks(without) {
				h.events, smaller = without, true
			} else {
				from = to
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return h
}

// retell runs a history once more and returns what happens in it, a line for each thing, with
// the number of the event.
func (w *world) retell(h history) string {
	w.tracing = true
	defer func() { w.tracing = false }()
	v := w.run(h)
	var text strings.Builder
	fmt.Fprintf(&text, "%d servers, %d clients, values of a are only handed on: %v, or soon unique again: %v, a is unique already: %v, ",
		h.cfg.servers, h.cfg.clients, h.cfg.legal, h.cfg.transient, h.cfg.guarded)
	fmt.Fprintf(&text, "LOCK records hide: %v\n", h.cfg.hiding)
	for h := range handles - 1 {
		fmt.Fprintf(&text, "      row %d is %s\n", h, firstRow(h))
	}
	for _, line := range w.traced {
		text.WriteString(line + "\n")
	}
	if v == nil {
		text.WriteString("nothing is broken\n")
	}
	return text.String()
}
