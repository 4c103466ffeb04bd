package session

import (
	"math"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// TextAt is a text of a row; NULL is empty.
func TextAt(row chunk.Row, i int) string {
	if row.IsNull(i) {
		return ""
	}
	return row.GetString(i)
}

// programAttribute is the connection attribute by which MySQL's clients say which program they are.
const programAttribute = "program_name"

// ProgramOf returns the program of a session's client; empty if the client has not named it.
func ProgramOf(vars *variable.SessionVars) string {
	if vars.ConnectionInfo == nil {
		return ""
	}
	return vars.ConnectionInfo.Attributes[programAttribute]
}

// Shortened is a text that fits into its column.
func Shortened(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "?")
}

// ValidText is text that a column takes.
func ValidText(text string) string { return strings.ToValidUTF8(text, "?") }

// ShortNumber cuts a number after some decimal digits. It is never above the number, except for
// what a binary fraction lacks of its decimal one.
func ShortNumber(v float64, digits int) float64 {
	const fraction = 1e-6 // far below the digits that are left out
	scale := math.Pow10(digits)
	return math.Floor(v*scale+fraction) / scale
}

// OrNull is NULL for a zero value.
func OrNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// TimeOrNull is a time as the clocks of loc show it.
func TimeOrNull(t time.Time, loc *time.Location) any {
	if t.IsZero() {
		return nil
	}
	return t.In(loc)
}
