package estimate

import (
	"fmt"
	"strings"

	"github.com/docker/go-units"

	"fastddl/ingest"
)

// Verdict says whether a build fits.
type Verdict string

// The verdicts.
const (
	Fits             Verdict = "fits"
	FitsWithSpilling Verdict = "fits with spilling"
	DoesNotFit       Verdict = "does not fit"
	Unknown          Verdict = "unknown"
)

// Resources that a build needs room of.
const (
	Memory = "memory"
	Temp   = "temp"
	Store  = "store"
)

// Need is a resource that must have room.
type Need struct {
	Resource string `json:"resource"`
	// Bytes is what the build needs at least, Free what it may fill.
	Bytes int64 `json:"bytes"`
	Free  int64 `json:"free"`
	// Known is false if it is not known what is free.
	Known bool `json:"known"`
}

// fits says whether there is room.
func (n *Need) fits() bool { return !n.Known || n.Bytes <= n.Free }

// leastTemp is what a build must be able to write to the temp folder to make progress: a final file.
const leastTemp = 64 << 20

// judge fills in the needs and the verdict.
func (e *Estimate) judge(in *Input, f ingest.Forecast) {
	temp := min(e.TempBytes, leastTemp)
	stored := e.StoreBytes
	if in.Disks.Shared {
		stored += min(f.SpilledBytes, leastTemp) // final files become the store's, sorted runs are beside them
	}
	e.Needs = []Need{
		{Memory, min(in.Outlook.LeastMemory, e.MemoryBytes), in.Outlook.MemoryQuota, in.Outlook.MemoryQuota > 0},
		{Temp, temp, in.Disks.Temp.room(), in.Disks.Temp.Known},
		{Store, stored, in.Disks.Store.room(), in.Disks.Store.Known},
	}
	var missing, unknown []string
	for i := range e.Needs {
		n := &e.Needs[i]
		switch {
		case !n.fits():
			missing = append(missing, fmt.Sprintf("%s: %s needed, %s free", n.Resource, Bytes(n.Bytes), Bytes(n.Free)))
		case !n.Known:
			unknown = append(unknown, n.Resource)
		}
	}
	switch {
	case len(missing) > 0:
		e.Verdict, e.Missing = DoesNotFit, strings.Join(missing, "; ")
	case len(unknown) > 0:
		e.Verdict, e.Missing = Unknown, "free space of "+strings.Join(unknown, ", ")
	case f.SpilledBytes > 0 || e.Rounds > 1:
		e.Verdict = FitsWithSpilling
	default:
		e.Verdict = Fits
	}
}

// Bytes is a number of bytes for people.
func Bytes(n int64) string { return units.BytesSize(float64(n)) }
