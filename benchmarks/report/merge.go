package report

import (
	"fmt"
	"slices"

	"fastddl/benchmarks/result"
)

// Merge puts results of several runs on one machine together. Servers and runs
// are those of all; figures of the same thing make one median.
func Merge(results ...*result.Peers) (*result.Peers, error) {
	if len(results) == 0 {
		return nil, fmt.Errorf("there is no result to report")
	}
	merged := *results[0]
	merged.Runs, merged.Servers = slices.Clone(merged.Runs), slices.Clone(merged.Servers)
	merged.Systems = slices.Clone(merged.Systems)
	for _, r := range results[1:] {
		if r.Machine != merged.Machine {
			return nil, fmt.Errorf("results of two machines do not go together: %+v, %+v", merged.Machine, r.Machine)
		}
		merged.Complete = merged.Complete && r.Complete
		merged.Runs = append(merged.Runs, r.Runs...)
		for _, s := range r.Servers {
			if !slices.ContainsFunc(merged.Servers, func(m result.Server) bool { return m.Name == s.Name && m.Rows == s.Rows }) {
				merged.Servers = append(merged.Servers, s)
			}
		}
		mergeSystems(&merged, r)
		mergeSetup(&merged.Setup, r.Setup)
	}
	return &merged, nil
}

// mergeSystems adds new systems. One that was there in any run is not skipped.
func mergeSystems(merged, r *result.Peers) {
	for _, s := range r.Systems {
		i := slices.IndexFunc(merged.Systems, func(m result.System) bool { return m.Name == s.Name })
		switch {
		case i < 0:
			merged.Systems = append(merged.Systems, s)
		case s.Skipped == "":
			merged.Systems[i] = s
		}
	}
}

func mergeSetup(merged *result.Setup, s result.Setup) {
	merged.Rows = union(merged.Rows, s.Rows)
	slices.Sort(merged.Rows)
	merged.Cases = union(merged.Cases, s.Cases)
	merged.LoadCases = union(merged.LoadCases, s.LoadCases)
	merged.Shares = union(merged.Shares, s.Shares)
	slices.Sort(merged.Shares)
}

func union[T comparable](a, b []T) []T {
	all := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
