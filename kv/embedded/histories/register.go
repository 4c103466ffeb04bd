package histories

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Access is one reading or writing of a register.
type Access struct {
	Write bool
	// Value is what was read or written; 0 is what the register has in the beginning, and every other value is written
	// once.
	Value        int
	Begun, Ended time.Duration
	// Unknown says that it is not known whether the write took place.
	Unknown bool
}

// zone is all that has to do with one value: from the first end to the last beginning of its accesses. If the end is
// earlier (a forward zone) the register has the value from there to the beginning at least; otherwise it has it at one
// moment in between at least.
type zone struct {
	value                int
	written              time.Duration // when its write began
	firstEnd, lastBegin  time.Duration
	reads                int
	unknown, wasProduced bool
}

func (z *zone) forward() bool { return z.firstEnd < z.lastBegin }

// CheckRegister looks whether the accesses of one register are linearizable. As every value is written once, each
// value's accesses form a zone, and the zones decide it (Gibbons and Korach, 1997).
func CheckRegister(name string, accesses []Access) Report {
	report := Report{Txns: len(accesses)}
	zones := collectZones(accesses)
	var list []*zone
	for _, z := range zones {
		if z.unknown && z.reads == 0 {
			continue // whether it took place does not matter
		}
		if !z.wasProduced {
			report.add(Garbage, "%d, read from %s, was never written", z.value, name)
			continue
		}
		if z.reads > 0 && z.firstEnd < z.written {
			report.add(Unlinearizable, "%d was read from %s at %v, before it was written at %v", z.value, name, z.firstEnd, z.written)
		}
		list = append(list, z)
	}
	slices.SortFunc(list, func(a, b *zone) int { return cmp.Compare(a.begin(), b.begin()) })
	var open *zone // the forward zone that ends last
	for _, z := range list {
		if open != nil && z.begin() < open.lastBegin && (z.forward() || z.lastEnd() < open.lastBegin) {
			report.add(Unlinearizable, "%s had the value %d from %v to %v, and %d from %v to %v", name,
				open.value, open.firstEnd, open.lastBegin, z.value, z.begin(), z.lastEnd())
		}
		if z.forward() && (open == nil || z.lastBegin > open.lastBegin) {
			open = z
		}
	}
	for _, a := range accesses {
		if !a.Write {
			report.Reads++
		}
	}
	return report
}

func (z *zone) begin() time.Duration { return min(z.firstEnd, z.lastBegin) }

func (z *zone) lastEnd() time.Duration { return max(z.firstEnd, z.lastBegin) }

func collectZones(accesses []Access) map[int]*zone {
	zones := map[int]*zone{0: {firstEnd: -1, lastBegin: math.MinInt64, written: math.MinInt64, wasProduced: true}}
	for _, a := range accesses {
		z := zones[a.Value]
		if z == nil {
			z = &zone{value: a.Value, firstEnd: never, lastBegin: math.MinInt64}
			zones[a.Value] = z
		}
		if a.Write {
			z.written, z.unknown, z.wasProduced = a.Begun, a.Unknown, true
		} else {
			z.reads++
		}
		if !a.Unknown {
			z.firstEnd = min(z.firstEnd, a.Ended)
		}
		z.lastBegin = max(z.lastBegin, a.Begun)
	}
	return zones
}
