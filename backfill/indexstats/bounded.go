package indexstats

import (
	"encoding/json"
	"slices"
)

// MaxSubtaskBytes is how long the checkpoint or the result of a subtask may be with states in it: both are in one row, beside others.
const MaxSubtaskBytes = 256 << 10

// EncodeWithin returns v as JSON. If that is longer than limit, states that v has are lost, the largest first, until it is not; those of
// nil are left out. It stays longer without them if the rest of v is.
func EncodeWithin(limit int, v any, states []*State) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil || len(data) <= limit {
		return data, err
	}
	type sized struct {
		state *State
		bytes int
	}
	var all []sized
	for _, s := range states {
		if s == nil || s.Lost {
			continue
		}
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		all = append(all, sized{s, len(text)})
	}
	if len(all) == 0 {
		return data, nil
	}
	slices.SortStableFunc(all, func(a, b sized) int { return b.bytes - a.bytes })
	lost, err := json.Marshal(&State{Lost: true})
	if err != nil {
		return nil, err
	}
	left := len(data)
	for _, s := range all {
		if left <= limit {
			break
		}
		s.state.lose()
		left += len(lost) - s.bytes
	}
	return json.Marshal(v)
}
