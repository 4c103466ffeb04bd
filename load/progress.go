package load

import (
	"sync"

	"fastddl/internal/stage"
)

// Stages of a load, as Progress has them.
var (
	Waiting   = "waiting" // for its share of the resources
	Reading   = stage.Scan.String()
	Importing = stage.Merge.String()
	Verifying = stage.Verify.String()
)

// Progress is what a load has done. The zero value is ready to use; all methods may be called concurrently.
type Progress struct {
	mu        sync.Mutex
	state     State
	stageDone func() float64
}

// State is what a load has done at one moment.
type State struct {
	// Stage is one of the constants above, empty before the load begins.
	Stage string
	// StageDone is how much of the stage is done, 0 to 1. Reading and importing may alternate.
	StageDone float64
	// Rows were read, and Imported of them are in the store.
	Rows, Imported int64
	// SourceRead of SourceBytes were read, as the files are stored.
	SourceRead, SourceBytes int64
}

// Shares of a load's time, about: of a table with two indexes, reading and sorting runs take so much of it, merging and importing so much,
// and verifying the rest.
const (
	readingShare   = 0.75
	importingShare = 0.20
)

// Done is about how much of the whole load is done, 0 to 1; 0 if the size of the source is not known.
func (s State) Done() float64 {
	switch {
	case s.Stage == Verifying:
		return readingShare + importingShare + (1-readingShare-importingShare)*s.StageDone
	case s.SourceBytes <= 0:
		return 0
	}
	read := min(1, float64(s.SourceRead)/float64(s.SourceBytes))
	imported := 0.0
	if s.Rows > 0 {
		rows := float64(s.Imported)
		if s.Stage == Importing {
			rows += float64(s.Rows-s.Imported) * s.StageDone
		}
		imported = read * rows / float64(s.Rows)
	}
	return readingShare*read + importingShare*imported
}

// Get returns the state now.
func (p *Progress) Get() State {
	p.mu.Lock()
	s, done := p.state, p.stageDone
	p.mu.Unlock()
	switch {
	case done != nil:
		s.StageDone = min(1, done())
	case s.SourceBytes > 0:
		s.StageDone = min(1, float64(s.SourceRead)/float64(s.SourceBytes))
	}
	return s
}

// begin sets what was done before.
func (p *Progress) begin(rows, read, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Rows, p.state.Imported, p.state.SourceRead, p.state.SourceBytes = rows, rows, read, bytes
}

func (p *Progress) enter(stage string, done func() float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Stage, p.stageDone = stage, done
}

func (p *Progress) add(rows, read int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Rows += rows
	p.state.SourceRead += read
}

func (p *Progress) allImported() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Imported = p.state.Rows
}
