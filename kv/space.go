package kv

// SpaceState says what the room on a store's disk allows. Higher is worse.
type SpaceState int32

const (
	// SpaceOK holds nothing back.
	SpaceOK SpaceState = iota
	// SpaceLow asks what can wait, such as index builds, to wait. Statements are
	// not affected.
	SpaceLow
	// SpaceFull refuses ordinary writes with a DiskFullError. Reads, deletions and
	// what the store cannot do without go on, out of what is reserved for them.
	SpaceFull
	// SpaceExhausted refuses deletions too, because the reserve is used up.
	SpaceExhausted
)

func (s SpaceState) String() string {
	switch s {
	case SpaceOK:
		return "ok"
	case SpaceLow:
		return "low"
	case SpaceFull:
		return "full"
	case SpaceExhausted:
		return "exhausted"
	default:
		return "unknown"
	}
}

// SpaceReporter is a store that knows how much room its disk has.
type SpaceReporter interface {
	// Space returns the bytes that are free on the disk, without those set aside, the
	// bytes set aside for deletions and for the store itself, and what both allow.
	// It reads a few numbers that are kept up to date: as cheap as can be.
	Space() (free, reserve uint64, state SpaceState)
	// SpaceForBuilds returns how many bytes have to be free for what waits because of
	// SpaceLow to go on.
	SpaceForBuilds() uint64
}

// KeepFree is what index builds leave free on a disk of so many bytes: more than what makes a
// store on it that is a SpaceReporter say SpaceLow.
func KeepFree(total uint64) uint64 { return min(1<<30, total/5) }

// Sizes are those of a store and of its disk, in bytes.
type Sizes struct {
	// Store is what the store's files take, garbage that is still to be collected included.
	Store uint64
	// DiskFree and DiskTotal are those of its disk; zero where the file system does not report them.
	DiskFree, DiskTotal uint64
}

// SizeReporter is a store that knows its sizes.
type SizeReporter interface {
	// Sizes asks the store and its disk.
	Sizes() (Sizes, error)
}
