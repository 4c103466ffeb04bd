package backfill

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill/encode"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// maxTargets is the number of targets that one ingest job sorts, if several
// partitions are put together.
const maxTargets = 8

// target is where entries of an index go: keys that begin with prefix.
type target struct {
	index  int // in the spec
	prefix []byte
	// whole is an interval of the index that has the target's entries, and those of other targets only if there are too
	// many of them for an interval each. A bound is nil if no other target lies behind it.
	whole kv.KeyRange
	// most is how many intervals the target is cut into at most; cuts are keys between them, as they are.
	most int
	cuts [][]byte
}

// group is a number of physical tables that are built together: all of an
// ordinary table, or a few partitions, so that what is in memory at one time does
// not depend on how many there are.
type group struct {
	physicals []int64
	targets   []target
	// first is the position of each index's first target. A local index has one for
	// each physical table, in their order.
	first []int
	local []bool
}

// groupSize is the number of physical tables in a group.
func groupSize(indexes []*model.IndexInfo) int { return max(1, maxTargets/len(indexes)) }

// Groups is how many groups of physical tables a build of indexes sorts one after the other.
func Groups(t *model.TableInfo, indexes []*model.IndexInfo) int {
	n, size := len(encode.PhysicalIDs(t)), groupSize(indexes)
	return (n + size - 1) / size
}

// groupFrom returns the group of physical tables that begins with the i-th.
func groupFrom(t *model.TableInfo, indexes []*model.IndexInfo, physicals []int64, i int) *group {
	g := &group{physicals: physicals[i:min(i+groupSize(indexes), len(physicals))]}
	for k, idx := range indexes {
		g.first = append(g.first, len(g.targets))
		g.local = append(g.local, !encode.IsGlobal(t, idx))
		for _, id := range encode.IndexIDs(t, idx, g.physicals) {
			target := target{index: k, prefix: encode.IndexPrefix(id, idx.ID), most: intervalsOf(indexes)}
			if g.local[k] {
				target.share(idx.ID, physicals, slices.Index(physicals, id))
			}
			g.targets = append(g.targets, target)
		}
	}
	return g
}

// target returns the position of the target that entries of the k-th index for
// rows of a physical table go to.
func (g *group) target(k int, physicalID int64) int {
	if !g.local[k] {
		return g.first[k]
	}
	return g.first[k] + slices.Index(g.physicals, physicalID)
}

// pick returns the tasks that lie in the group, and the others, both in their order.
func (g *group) pick(tasks []keyrange.Weighted) (in, others []keyrange.Weighted) {
	for _, t := range tasks {
		if slices.Contains(g.physicals, t.PhysicalID()) {
			in = append(in, t)
		} else {
			others = append(others, t)
		}
	}
	return in, others
}
