package compare

// For tests outside the package, which build the indexes that they compare.
const (
	MaxClaims      = maxClaims
	MaxDifferences = maxDifferences
	MinChanges     = minChanges
	SmallBytes     = smallBytes
	SmallRanges    = smallRanges
)

var ErrUnsure = errUnsure
