package cop

import (
	contextutil "github.com/pingcap/tidb/pkg/util/context"
	"github.com/pingcap/tipb/go-tipb"
)

// defaultMaxWarnings is how many warnings are returned if a request sets no limit.
const defaultMaxWarnings = 64

// warnings collects the warnings of one request, all counted and the first max kept. It is used by one goroutine.
type warnings struct {
	max   int
	count int
	kept  []contextutil.SQLWarn
}

var _ contextutil.WarnHandler = (*warnings)(nil)

func (w *warnings) add(level string, err error) {
	if err == nil {
		return
	}
	w.count++
	if len(w.kept) < w.max {
		w.kept = append(w.kept, contextutil.SQLWarn{Level: level, Err: sqlError(err)})
	}
}

// AppendWarning implements contextutil.WarnAppender.
func (w *warnings) AppendWarning(err error) { w.add(contextutil.WarnLevelWarning, err) }

// AppendNote implements contextutil.WarnAppender.
func (w *warnings) AppendNote(err error) { w.add(contextutil.WarnLevelNote, err) }

// WarningCount implements contextutil.WarnHandler; it counts also what was not kept.
func (w *warnings) WarningCount() int { return w.count }

// TruncateWarnings implements contextutil.WarnHandler. Of the warnings that it takes back it returns those that were kept.
func (w *warnings) TruncateWarnings(start int) []contextutil.SQLWarn {
	if start >= w.count {
		return nil
	}
	w.count = start
	if start >= len(w.kept) {
		return nil
	}
	taken := append([]contextutil.SQLWarn(nil), w.kept[start:]...)
	w.kept = w.kept[:start]
	return taken
}

// CopyWarnings implements contextutil.WarnHandler.
func (w *warnings) CopyWarnings(dst []contextutil.SQLWarn) []contextutil.SQLWarn {
	return append(dst[:0], w.kept...)
}

// fill puts the warnings into the response.
func (w *warnings) fill(resp *tipb.SelectResponse) {
	if w.count == 0 {
		return
	}
	count := int64(w.count)
	resp.WarningCount = &count
	for _, warn := range w.kept {
		resp.Warnings = append(resp.Warnings, errorToPB(warn.Err))
	}
}
