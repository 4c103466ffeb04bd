package histories

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind names an anomaly, where there is one by Adya's name for it.
type Kind string

// What snapshot isolation, real time or plain sense forbid.
const (
	// Garbage is a value that no transaction has appended.
	Garbage Kind = "garbage read"
	// Repeated is one append that took place twice: a request was carried out more than once.
	Repeated Kind = "append carried out twice"
	// Disorder is two readings of a list neither of which begins the other: an append was lost or taken back.
	Disorder Kind = "incompatible order"
	// AbortedRead is a value of a transaction that did not commit.
	AbortedRead Kind = "G1a aborted read"
	// IntermediateRead is a value that its transaction had not finished with.
	IntermediateRead Kind = "G1b intermediate read"
	// Internal is a transaction that does not see its own appends, or sees something else at the second look.
	Internal Kind = "internal inconsistency"
	// Lost is a committed append that a later transaction does not find.
	Lost Kind = "lost append"

	// DirtyWrite is a circle of ww dependencies.
	DirtyWrite Kind = "G0 dirty write"
	// CircularFlow is a circle of ww and wr dependencies.
	CircularFlow Kind = "G1c circular information flow"
	// LostUpdate is two transactions that have read one version of a list and have both appended to it.
	LostUpdate Kind = "P4 lost update"
	// ReadSkew is a circle with one rw dependency: a transaction has seen part of another.
	ReadSkew Kind = "G-single read skew"
	// LongFork is a circle with several rw dependencies, no two of them side by side.
	LongFork Kind = "G-nonadjacent long fork"
	// LockedSkew is a write skew of transactions that had locked what they read.
	LockedSkew Kind = "G2 write skew in spite of locks"

	// WrongView is a reading that is not that of its timestamp.
	WrongView Kind = "reading at another timestamp"
	// WrongOrder is commit timestamps that contradict the order of appends, of locks or of real time.
	WrongOrder Kind = "timestamps out of order"

	// Unlinearizable is a register that was not one value at a time.
	Unlinearizable Kind = "not linearizable"
)

// Anomaly is something that must not happen, and what shows it.
type Anomaly struct {
	Kind Kind
	// RealTime says that the circle holds only because of what ended before something else began.
	RealTime bool
	Detail   string
}

func (a Anomaly) String() string {
	kind := string(a.Kind)
	if a.RealTime {
		kind += " in real time"
	}
	return kind + ": " + a.Detail
}

// Report is what a check has found.
type Report struct {
	// Txns, Reads and Edges count what was checked.
	Txns, Reads, Edges int
	Anomalies          []Anomaly
}

// maxAnomalies bounds a report: the first ones show what is wrong.
const maxAnomalies = 20

func (r *Report) add(kind Kind, format string, args ...any) {
	if len(r.Anomalies) < maxAnomalies {
		r.Anomalies = append(r.Anomalies, Anomaly{Kind: kind, Detail: fmt.Sprintf(format, args...)})
	}
}

// Add takes over what another check of the same history has found.
func (r *Report) Add(other Report) {
	r.Txns, r.Reads, r.Edges = r.Txns+other.Txns, r.Reads+other.Reads, r.Edges+other.Edges
	r.Anomalies = append(r.Anomalies, other.Anomalies...)
}

// Kinds lists the anomalies by name, each once.
func (r *Report) Kinds() []Kind {
	var kinds []Kind
	for _, a := range r.Anomalies {
		kinds = append(kinds, a.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// String lists the anomalies, in the order they were found.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d transactions, %d reads, %d dependencies, %d anomalies", r.Txns, r.Reads, r.Edges, len(r.Anomalies))
	for _, a := range r.Anomalies {
		b.WriteString("\n  " + a.String())
	}
	return b.String()
}

// describe shows a transaction on one line.
func (t *Txn) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s %d..%d at %v..%v", cmp.Or(t.Name, "txn"), t.Start, t.Commit, t.Begun, t.Ended)
	for _, op := range t.Ops {
		switch {
		case op.Kind == Append:
			fmt.Fprintf(&b, " %s+=%d", op.Key, op.Value)
		case op.Locked:
			fmt.Fprintf(&b, " %s=%s!", op.Key, tail(op.List))
		default:
			fmt.Fprintf(&b, " %s=%s", op.Key, tail(op.List))
		}
	}
	return b.String() + "]"
}

// tail shows a list's end.
func tail(list []int) string {
	const shown = 4
	if len(list) <= shown {
		return fmt.Sprint(list)
	}
	return fmt.Sprintf("(%d)…%v", len(list)-shown, list[len(list)-shown:])
}
