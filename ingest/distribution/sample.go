package distribution

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
)

// maxSample is the number of hashes that a sample has: a tenth of those of TiDB's own, because that of each partition is
// part of a checkpoint.
const maxSample = 1024

// Sample has the hashes of which Mask has no bit, as TiDB's FMSketch does (FMSketch.insertHashValue in pkg/statistics/fmsketch.go). TiDB keeps one of each partition, to count the values of
// all of them when it has analyzed one.
type Sample struct {
	Mask   uint64
	Hashes map[uint64]struct{}
}

func (s *Sample) add(hash uint64) {
	if hash&s.Mask != 0 {
		return
	}
	if s.Hashes == nil {
		s.Hashes = make(map[uint64]struct{})
	}
	s.Hashes[hash] = struct{}{}
	for len(s.Hashes) > maxSample {
		s.Mask = s.Mask*2 + 1
		s.drop()
	}
}

func (s *Sample) drop() {
	for h := range s.Hashes {
		if h&s.Mask != 0 {
			delete(s.Hashes, h)
		}
	}
}

// merge adds the hashes of o to s and returns it; nil if one of them is.
func (s *Sample) merge(o *Sample) *Sample {
	if s == nil || o == nil {
		return nil
	}
	if o.Mask > s.Mask {
		s.Mask = o.Mask
		s.drop()
	}
	for h := range o.Hashes {
		s.add(h)
	}
	return s
}

func (s *Sample) clone() *Sample { return &Sample{Mask: s.Mask, Hashes: maps.Clone(s.Hashes)} }

// MarshalJSON implements json.Marshaler: the mask and the hashes, eight bytes each.
func (s *Sample) MarshalJSON() ([]byte, error) {
	data := binary.LittleEndian.AppendUint64(nil, s.Mask)
	for h := range s.Hashes {
		data = binary.LittleEndian.AppendUint64(data, h)
	}
	return json.Marshal(data)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Sample) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil {
		return err
	}
	if len(data)%8 != 0 || len(data) < 8 || len(data) > 8*(maxSample+1) {
		return errors.New("distribution: not a sample of hashes")
	}
	s.Mask = binary.LittleEndian.Uint64(data)
	s.Hashes = make(map[uint64]struct{})
	for data = data[8:]; len(data) > 0; data = data[8:] {
		s.Hashes[binary.LittleEndian.Uint64(data)] = struct{}{}
	}
	return nil
}
