package ddl

import (
	"time"

	"fastddl/ddl/job"
)

// timeZoneOf describes loc so that a job can keep it; nil is UTC.
func timeZoneOf(loc *time.Location) job.TimeZone {
	if loc == nil {
		return job.TimeZone{}
	}
	z := job.TimeZone{Name: loc.String()}
	if _, err := time.LoadLocation(z.Name); err != nil {
		_, z.Offset = time.Unix(0, 0).In(loc).Zone()
	}
	return z
}

// locationOf returns the zone that z describes. One that is not known here,
// since the job comes from another machine, is UTC.
func locationOf(z job.TimeZone) *time.Location {
	if z.Offset != 0 {
		return time.FixedZone(z.Name, z.Offset)
	}
	loc, err := time.LoadLocation(z.Name)
	if err != nil {
		return time.UTC
	}
	return loc
}
