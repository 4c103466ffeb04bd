package estimate

import (
	"math"
	"slices"
)

// Stages of a build, as its history has them.
const (
	StageScan    = "scan"
	StageMerge   = "merge"
	StageVerify  = "verify"
	StageCompare = "compare"
	StageWait    = "wait"
)

// Stages are all of them, in their order.
var Stages = []string{StageScan, StageMerge, StageVerify, StageCompare, StageWait}

// Work is how much a build has to do.
type Work struct {
	// Rows and ReadBytes are scanned, Entries of EntryBytes encoded, sorted and written; SpilledBytes pass through the temp folder.
	Rows, ReadBytes, Entries, EntryBytes, SpilledBytes float64
	// Workers scan and Mergers merge, on Cores.
	Workers, Mergers, Cores float64
	// Full, Unique and Compared are what is verified and compared.
	Full, Compared bool
}

// Seconds of one processor, measured on the embedded store with two cores (docs/explain.md). What a server has measured of itself
// corrects them.
const (
	scanRow, scanByte        = 60e-9, 0.5e-9
	encodeEntry, encodeByte  = 100e-9, 0.8e-9
	spillByte                = 1.5e-9
	mergeEntry, mergeByte    = 220e-9, 5e-9
	verifyEntry              = 25e-9
	secondReadingRow         = 150e-9
	secondReadingEntry       = 120e-9
	compareEntry             = 60e-9
	fixedScan, fixedMerge    = 0.005, 0.015
	fixedVerify, fixedStates = 0.003, 0.12
)

// base is how long the stages take by the measured costs.
func (w *Work) base(stage string) float64 {
	scanners := max(1, min(w.Workers, w.Cores))
	mergers := max(1, min(w.Mergers, w.Cores))
	switch stage {
	case StageScan:
		cpu := w.Rows*scanRow + w.ReadBytes*scanByte + w.Entries*encodeEntry + w.EntryBytes*encodeByte + w.SpilledBytes*spillByte
		return fixedScan + cpu/scanners
	case StageMerge:
		cpu := w.Entries*mergeEntry + w.EntryBytes*mergeByte + w.SpilledBytes*spillByte
		return fixedMerge + cpu/mergers
	case StageVerify:
		cpu := w.Entries * verifyEntry
		if w.Full {
			cpu = w.Rows*secondReadingRow + w.Entries*secondReadingEntry
		}
		return fixedVerify + cpu/scanners
	case StageCompare:
		if !w.Compared {
			return 0
		}
		return fixedVerify + w.Entries*compareEntry/scanners
	default:
		return fixedStates
	}
}

// Past is a build that has ended.
type Past struct {
	Work
	// Seconds are those of each stage; a stage that is not there is not known.
	Seconds map[string]float64
}

// Rate is by how much the seconds of a stage differ from the measured costs.
type Rate struct {
	// Factor is the median over Builds, Spread how far half of them are from it, as a part of it.
	Factor, Spread float64
	Builds         int
}

// Rates are those of each stage.
type Rates map[string]Rate

const (
	// learnedBuilds is how many of the newest builds count.
	learnedBuilds = 20
	// leastSeconds is how long a stage must have taken to say something: shorter ones are about the clock.
	leastSeconds = 0.05
	// leastFactor and mostFactor bound what is believed.
	leastFactor, mostFactor = 0.05, 50
)

// Learn returns what builds that have ended, the newest first, say of the stages. Large builds say more than small ones: of the newest,
// those count whose stage took at least a tenth of the longest; of waiting, which has nothing to do with rows, all do. A build of which it is not known what it has read is taken to have read
// rowBytes of each row.
func Learn(builds []Past, rowBytes float64) Rates {
	rates := make(Rates)
	for _, stage := range Stages {
		type measured struct{ factor, seconds float64 }
		var all []measured
		longest := 0.0
		for i := range builds {
			seconds, known := builds[i].Seconds[stage]
			work := builds[i].Work
			if work.ReadBytes == 0 {
				work.ReadBytes = work.Rows * rowBytes
			}
			base := work.base(stage)
			if !known || seconds < leastSeconds || base <= 0 || stage != StageWait && builds[i].Rows == 0 {
				continue
			}
			all = append(all, measured{min(max(seconds/base, leastFactor), mostFactor), seconds})
			longest = max(longest, seconds)
			if len(all) == learnedBuilds {
				break
			}
		}
		var factors []float64
		for _, m := range all {
			if stage == StageWait || m.seconds >= longest/10 { // waiting is not for rows: the longest is an accident
				factors = append(factors, m.factor)
			}
		}
		if len(factors) == 0 {
			continue
		}
		middle := median(factors)
		var off []float64
		for _, f := range factors {
			off = append(off, math.Abs(f-middle)/middle)
		}
		rates[stage] = Rate{Factor: middle, Spread: median(off), Builds: len(factors)}
	}
	return rates
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

const (
	// unmeasuredSpread is the range of a stage that this server has not measured, leastSpread that of one that it has.
	unmeasuredSpread, leastSpread = 0.5, 0.2
)

// of returns the rate of a stage.
func (r Rates) of(stage string) (factor, spread float64) {
	rate, ok := r[stage]
	if !ok {
		return 1, unmeasuredSpread
	}
	// One build says less than several.
	return rate.Factor, max(leastSpread, rate.Spread, unmeasuredSpread/math.Sqrt(float64(rate.Builds)+1))
}
