package ingest

import (
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/internal/errs"
	"fastddl/kv"
)

const (
	// minRoom is what jobs try to have in the temp folder, however little room there seems to
	// be: the least quota.
	minRoom = 16 << 20
	// runsRoomPercent and filesRoomPercent are the parts of the room for runs and for final
	// files. The store's files may be on the same disk: when all runs have been merged, there is
	// as much of those.
	runsRoomPercent  = 30
	filesRoomPercent = filesPercent
	// refusalAge is how long jobs keep to what a disk had room for. When it is over, one of
	// them may have to scan again what it has scanned since its checkpoint.
	refusalAge = time.Hour
)

// room is how much the disk of the temp folder has room for, of all jobs together. The mutex of
// the resources guards it.
type room struct {
	// measured is what the file system says.
	measured int64
	// refused is what jobs had when it took no more: it need not say what it has, or may
	// leave a user's quota out. It counts until a moment.
	refused int64
	until   time.Time
}

func (r *room) bytes() int64 {
	if time.Now().Before(r.until) {
		return max(minRoom, min(r.measured, r.refused))
	}
	return max(minRoom, r.measured)
}

// refuse notes that there was no room for more than jobs had.
func (r *room) refuse(had int64) {
	now := time.Now()
	if now.Before(r.until) {
		had = min(had, r.refused)
	}
	r.refused, r.until = had, now.Add(refusalAge)
}

// measureRoom looks how much room there is in the temp folder, and has all jobs keep to it. Others
// use the disk, too, so it is done over and over.
func (j *Job) measureRoom() {
	dir, err := j.dir()
	if err != nil {
		return // the write that fails there says so
	}
	usage, err := j.opts.FS.GetDiskUsage(dir)
	if err != nil {
		return // there are file systems that do not know
	}
	j.share.r.measured(usage)
}

func (r *Resources) measured(usage vfs.DiskUsage) {
	r.mu.Lock()
	r.room.measured = roomOn(usage) + r.temp.now
	r.mu.Unlock()
	r.rebalance()
}

// roomOn is how much of a disk jobs may fill beside what they have.
func roomOn(disk vfs.DiskUsage) int64 {
	return int64(min(disk.AvailBytes, math.MaxInt64/2)) - int64(kv.KeepFree(disk.TotalBytes))
}

// refused says whether err is that the disk is full. All jobs then keep to what they had, but for
// when that was hardly anything: somebody else has filled the disk.
func (s *Share) refused(err error) bool {
	if !errs.NoSpace(err) {
		return false
	}
	s.r.mu.Lock()
	if had := max(s.r.temp.now, s.temp.peak); had > minRoom {
		s.r.room.refuse(had)
	}
	s.r.mu.Unlock()
	s.r.rebalance()
	return true
}
