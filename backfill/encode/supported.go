package encode

import (
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"
)

// ErrUnsupported says that a table or index has a form that cannot be built here.
var ErrUnsupported = errors.New("backfill: not supported")

// Supported returns nil if indexes of table can be built and compared here, and otherwise
// an ErrUnsupported that says why not.
func Supported(table *model.TableInfo, indexes []*model.IndexInfo) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
	}
	switch {
	case table.TempTableType != model.TempTableNone:
		return refuse("temporary table %s", table.Name.O)
	case table.IsView() || table.IsSequence():
		return refuse("%s is not a base table", table.Name.O)
	case table.IsCommonHandle && table.CommonHandleVersion != 1:
		return refuse("clustered table %s of version %d", table.Name.O, table.CommonHandleVersion)
	case partitionsChange(table.GetPartitionInfo()):
		return refuse("table %s, whose partitions are being changed", table.Name.O)
	}
	for _, idx := range indexes {
		if idx.VectorInfo != nil {
			return refuse("vector index %s", idx.Name.O)
		}
		for _, ic := range idx.Columns {
			if ic.UseChangingType {
				return refuse("index %s on column %s, whose type is being changed", idx.Name.O, ic.Name.O)
			}
		}
	}
	return nil
}

func partitionsChange(p *model.PartitionInfo) bool {
	return p != nil && (p.DDLState != model.StateNone || p.NewTableID != 0 ||
		len(p.AddingDefinitions) > 0 || len(p.DroppingDefinitions) > 0)
}
