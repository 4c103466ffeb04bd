package estimate

import "math"

const (
	// leastOfSample bounds what growing density may save: entries do not become smaller than this part of those of the
	// sample.
	leastOfSample = 0.25
	// fileBytes is what a final file has beside its blocks, and fileEvery how many bytes one has.
	fileBytes, fileEvery = 700, 64 << 20
)

// extrapolate returns what total entries occupy, by what fewer of them do. Where keys are spread evenly, each doubling
// of their number gives neighbours another bit in common: the bytes of an entry fall with the logarithm of the number. Where
// neighbours in the index lie together in the sample already, the points have one height, and nothing is saved.
func extrapolate(points []Point, total float64) float64 {
	if len(points) == 0 || total <= 0 {
		return 0
	}
	last := points[len(points)-1]
	if last.Entries == 0 {
		return 0
	}
	each := float64(last.Bytes) / float64(last.Entries)
	slope := 0.0 // bytes an entry loses with each doubling
	if first := points[0]; len(points) > 1 && first.Entries < last.Entries && first.Entries > 0 {
		slope = (float64(first.Bytes)/float64(first.Entries) - each) / math.Log2(float64(last.Entries)/float64(first.Entries))
	}
	doublings := max(0, math.Log2(total/float64(last.Entries)))
	slope = max(0, slope)
	// An entry more does not make the others smaller than it is itself, which is where the line would lead to.
	least := max(each*leastOfSample, min(each, slope/math.Ln2))
	return total * max(each-slope*doublings, least)
}

// entriesOf returns how many entries all rows have, and the length of their keys and values.
func (in *Input) entriesOf(idx *Index) (entries, bytes float64) {
	if in.Sampled == 0 || idx.SampleEntries == 0 {
		return 0, 0
	}
	entries = float64(idx.SampleEntries) / float64(in.Sampled) * float64(in.Rows)
	return entries, entries * float64(idx.SampleBytes) / float64(idx.SampleEntries)
}

// storedBytes returns what the files of an index occupy.
func storedBytes(idx *Index, entries float64) float64 {
	n := extrapolate(idx.Stored, entries)
	if n == 0 {
		return 0
	}
	return n + fileBytes*math.Ceil(n/fileEvery)
}
