package ddl

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fastddl/ddl/estimate"
	"fastddl/kv"
)

// disks returns what is free for builds: in the temp folder, and in the store. usage is that of the temp folder's disk; nil
// if it is not known.
func (d *DDL) disks(ctx context.Context) (disks estimate.Disks, usage *vfs.DiskUsage) {
	disks.Replicas = 1
	if usage = tempUsage(d.opts.TempDir); usage != nil {
		disks.Temp = estimate.Disk{Free: clamped(usage.AvailBytes), Kept: clamped(kv.KeepFree(usage.TotalBytes)), Known: true}
	}
	if reporter, ok := d.opts.Builds.(kv.RoomReporter); ok {
		room, known, err := reporter.Room(ctx)
		if err != nil {
			d.opts.Logger.Info("the room of the cluster's stores is not known", zap.Error(err))
		}
		if known {
			disks.Store = estimate.Disk{Free: clamped(room.Available), Known: true}
			disks.Replicas, disks.Stores = room.Replicas, room.Stores
		}
		return disks, usage
	}
	reporter, ok := d.opts.Builds.(kv.SpaceReporter)
	if !ok || reporter.SpaceForBuilds() == 0 {
		return disks, usage
	}
	free, _, _ := reporter.Space()
	disks.Store = estimate.Disk{Free: clamped(free), Kept: clamped(reporter.SpaceForBuilds()), Known: true}
	disks.Shared = usage != nil && d.onDiskOf(*usage)
	return disks, usage
}

func clamped(n uint64) int64 { return int64(min(n, math.MaxInt64/4)) }

// onDiskOf says that the store is on a disk with the given usage: it has the same size and, but for what is written at the
// moment, the same room.
func (d *DDL) onDiskOf(usage vfs.DiskUsage) bool {
	reporter, ok := d.opts.Builds.(kv.SizeReporter)
	if !ok {
		return false
	}
	sizes, err := reporter.Sizes()
	if err != nil || sizes.DiskTotal != usage.TotalBytes {
		return false
	}
	apart := math.Abs(float64(sizes.DiskFree) - float64(usage.AvailBytes))
	return apart <= float64(usage.TotalBytes)/100
}

// tempUsage returns the usage of the disk of a folder that may have to be made; nil if it is not known.
func tempUsage(dir string) *vfs.DiskUsage {
	for {
		usage, err := vfs.Default.GetDiskUsage(dir)
		if err == nil {
			return &usage
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return nil
		}
		dir = parent
	}
}
