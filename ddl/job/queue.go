package job

import "github.com/pingcap/tidb/pkg/meta/model"

// Queued is a job in TiDB's queue, ours or one of TiDB's: its ID and what it
// involves.
type Queued struct {
	ID        int64
	Involving []model.InvolvingSchemaInfo
}

// Ahead returns the last of the jobs that the one of the given ID has to wait
// for: one with a lower ID that involves what it involves. It is 0 if there is
// none. The rules are those of TiDB's scheduler, by which TiDB's own jobs wait for
// ours. Of many that wait for the same table each then waits for another one.
func Ahead(queue []Queued, id int64, involving []model.InvolvingSchemaInfo) (ahead int64) {
	for _, q := range queue {
		if ahead < q.ID && q.ID < id && conflict(q.Involving, involving) {
			ahead = q.ID
		}
	}
	return ahead
}

// AllAhead returns the IDs of the jobs that a new one would wait for, in their order.
func AllAhead(queue []Queued, involving []model.InvolvingSchemaInfo) (ahead []int64) {
	for _, q := range queue {
		if conflict(q.Involving, involving) {
			ahead = append(ahead, q.ID)
		}
	}
	return ahead
}

func conflict(a, b []model.InvolvingSchemaInfo) bool {
	for _, x := range a {
		for _, y := range b {
			if overlap(x, y) {
				return true
			}
		}
	}
	return false
}

func overlap(a, b model.InvolvingSchemaInfo) bool {
	switch {
	case a.Mode == model.SharedInvolving && b.Mode == model.SharedInvolving:
		return false
	case a.Database == model.InvolvingAll || b.Database == model.InvolvingAll:
		return true
	case a.Database == model.InvolvingNone || a.Database != b.Database:
		return false
	}
	return a.Table == b.Table || a.Table == model.InvolvingAll || b.Table == model.InvolvingAll
}
