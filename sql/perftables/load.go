package perftables

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/flow"
)

// LoadTable has what this server did in the last ten minutes, a row for each two seconds, for accounts with PROCESS.
const LoadTable = "fastddl_server_load"

// LoadColumns are its columns.
func LoadColumns() []string { return loadSource.columns }

var loadSource = source{
	name: LoadTable,
	columns: []string{
		"time TIMESTAMP(3) NULL", "seconds DOUBLE", "statements BIGINT", "p50_ms DOUBLE", "p99_ms DOUBLE", "running BIGINT",
		"builds BIGINT", "rows_per_second DOUBLE",
	},
	read: readLoad,
}

func readLoad(_ context.Context, s served, names []string, v *viewer, loc *time.Location, row func(values []types.Datum, size int64) error) error {
	if !v.seesServer() {
		return nil
	}
	for _, p := range s.load.Points() {
		values := make([]types.Datum, len(names))
		for i, name := range names {
			if err := setLoad(&values[i], name, p, loc); err != nil {
				return err
			}
		}
		if err := row(values, int64(len(values))*types.EmptyDatumSize); err != nil {
			return err
		}
	}
	return nil
}

// setLoad sets a value to that of a column.
func setLoad(d *types.Datum, name string, p flow.LoadPoint, loc *time.Location) error {
	percentile := func(percent int64) {
		if took, ok := p.Latencies.Percentile(percent); ok {
			d.SetFloat64(float64(took.Microseconds()) / 1000)
		}
	}
	switch name {
	case "time":
		d.SetMysqlTime(types.NewTime(types.FromGoTime(p.Until.In(loc)), mysql.TypeTimestamp, 3))
	case "seconds":
		d.SetFloat64(p.Took.Seconds())
	case "statements":
		d.SetInt64(p.Latencies.Count())
	case "p50_ms":
		percentile(50)
	case "p99_ms":
		percentile(99)
	case "running":
		d.SetInt64(int64(p.Running))
	case "builds":
		d.SetInt64(int64(p.Builds))
	case "rows_per_second":
		d.SetFloat64(p.RowsPerSecond)
	default:
		return fmt.Errorf("%s has no column %s", LoadTable, name)
	}
	return nil
}
