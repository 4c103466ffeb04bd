package indexstats

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"fastddl/ingest/distribution"
)

// State is what is known of the statistics of an index that is being built.
type State struct {
	// Lost says that entries are durable of which nothing is known.
	Lost bool
	// Parts are those of physical tables: one of a global index and of a table without partitions.
	Parts []Part
	// Union is the distribution over all partitions; nil without them.
	Union *distribution.Summary
}

// Part is what is known of one physical table.
type Part struct {
	// Table is its ID.
	Table int64 `json:"table"`
	// Once are the statistics if one merge has written all entries, otherwise Summary is their distribution.
	Once    *Statistics           `json:"once,omitempty"`
	Summary *distribution.Summary `json:"summary,omitempty"`
}

// Written is what a flush has written of an index for one physical table.
type Written struct {
	Table   int64
	Summary *distribution.Summary // nil if it is not known
	// Local says that the index has entries of other physical tables, too, apart from these.
	Local bool
	// All says that these are all entries of the physical table. Entries says that TiDB makes the statistics from
	// entries, not from rows.
	All, Entries bool
}

// Has says that something was written for a physical table.
func (s *State) Has(table int64) bool {
	for i := range s.Parts {
		if s.Parts[i].Table == table {
			return true
		}
	}
	return false
}

// Add adds what a flush has written.
func (s *State) Add(w Written, set Settings) error {
	if s.Lost {
		return nil
	}
	if w.Summary == nil {
		s.lose()
		return nil
	}
	part := Part{Table: w.Table}
	if w.All && !s.Has(w.Table) {
		var err error
		if w.Entries {
			part.Once, err = BuildFromEntries(w.Summary, set)
		} else {
			part.Once = Build(w.Summary, set)
		}
		if err != nil {
			s.lose()
			return err
		}
		part.Once.own()
	}
	if part.Once == nil || w.Local {
		w.Summary.Shorten()
		w.Summary.Own()
	}
	if part.Once == nil {
		part.Summary = w.Summary
	}
	if w.Local {
		if err := s.unite(w.Summary); err != nil {
			return err
		}
	}
	return s.add(part)
}

// Join adds what another node has written.
func (s *State) Join(o *State) error {
	if s.Lost {
		return nil
	}
	if o == nil || o.Lost {
		s.lose()
		return nil
	}
	for _, p := range o.Parts {
		if err := s.add(p); err != nil {
			return err
		}
	}
	return s.unite(o.Union)
}

func (s *State) add(p Part) (err error) {
	for i := range s.Parts {
		have := &s.Parts[i]
		if have.Table != p.Table {
			continue
		}
		if have.Once != nil || p.Once != nil {
			s.lose()
			return fmt.Errorf("indexstats: entries of table %d were written after all of them were", p.Table)
		}
		if have.Summary, err = distribution.Merge(have.Summary, p.Summary); err != nil {
			s.lose()
		}
		return err
	}
	s.Parts = append(s.Parts, p)
	return nil
}

func (s *State) unite(o *distribution.Summary) (err error) {
	if s.Union, err = distribution.Merge(s.Union, o); err != nil {
		s.lose()
	}
	return err
}

func (s *State) lose() { *s = State{Lost: true} }

// Result returns the statistics of physical tables, by ID, and if they are local those of all of them; nothing if they are not known. A table
// of which nothing was written has no rows.
func (s *State) Result(tables []int64, local bool, set Settings) (parts map[int64]*Statistics, all *Statistics) {
	if s.Lost {
		return nil, nil
	}
	parts = make(map[int64]*Statistics, len(tables))
	for _, id := range tables {
		parts[id] = new(Statistics)
	}
	for _, p := range s.Parts {
		if p.Once != nil {
			parts[p.Table] = p.Once
		} else {
			parts[p.Table] = Build(p.Summary, set)
		}
	}
	switch {
	case s.Union != nil:
		all = Build(s.Union, set)
	case local:
		all = new(Statistics)
	}
	return parts, all
}

// stored is the form in which a state is kept.
type stored struct {
	Lost  bool                  `json:"lost,omitempty"`
	Parts []Part                `json:"parts,omitempty"`
	Union *distribution.Summary `json:"union,omitempty"`
}

// MarshalJSON implements json.Marshaler: a string of compressed JSON.
func (s *State) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(stored(*s))
	if err != nil {
		return nil, err
	}
	w, err := newWriter()
	if err != nil {
		return nil, err
	}
	defer idleWriters.Put(w) // Reset forgets what an error has left
	var b bytes.Buffer
	w.Reset(&b)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(b.Bytes())
}

// idleWriters are *flate.Writer that no state is written with: a checkpoint has a state of each index, and a writer
// is many times larger than what most states are compressed to.
var idleWriters sync.Pool

// newWriter returns a writer of idleWriters, or a new one. It has to be reset.
func newWriter() (*flate.Writer, error) {
	if w, ok := idleWriters.Get().(*flate.Writer); ok {
		return w, nil
	}
	return flate.NewWriter(io.Discard, flate.BestSpeed)
}

// maxStateBytes bounds what a stored state is decompressed to.
const maxStateBytes = 256 << 20

// UnmarshalJSON implements json.Unmarshaler. What cannot be read is lost: an index is built without it.
func (s *State) UnmarshalJSON(data []byte) error {
	var compressed []byte
	var read stored
	err := json.Unmarshal(data, &compressed)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(flate.NewReader(bytes.NewReader(compressed)), maxStateBytes)).Decode(&read)
	}
	if err != nil || !read.valid() {
		s.lose()
		return nil
	}
	*s = State(read)
	return nil
}

// valid says that a state can be gone on with.
func (s *stored) valid() bool {
	for _, p := range s.Parts {
		if (p.Once == nil) == (p.Summary == nil) || !p.Summary.Valid() {
			return false
		}
	}
	return s.Union.Valid()
}
