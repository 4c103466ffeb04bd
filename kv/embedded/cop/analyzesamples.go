package cop

import (
	"fmt"

	"github.com/pingcap/tidb/pkg/sessionctx/stmtctx"
	"github.com/pingcap/tidb/pkg/statistics"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tipb/go-tipb"
)

// cutSamples cuts values that are so long that the SQL layer leaves them out of its histograms (MaxSampleValueLength). It
// looks at their length only, so that one byte more than that is as good as all of them. Their sizes and how many are
// different was counted before. Columns must not be computed from what is cut.
func cutSamples(sc *stmtctx.StatementContext, cols []*tipb.ColumnInfo, samples statistics.WeightedRowSampleHeap) error {
	for i, c := range cols {
		if !types.IsString(byte(c.Tp)) {
			continue
		}
		for _, s := range samples {
			if err := cutSample(sc, &s.Columns[i]); err != nil {
				return fmt.Errorf("sample of column %d: %w", c.ColumnId, err)
			}
		}
	}
	return nil
}

// cutSample cuts an encoded value.
func cutSample(sc *stmtctx.StatementContext, encoded *types.Datum) error {
	if encoded.IsNull() || len(encoded.GetBytes()) <= statistics.MaxSampleValueLength {
		return nil
	}
	_, value, err := codec.DecodeOne(encoded.GetBytes())
	if err != nil {
		return err
	}
	if len(value.GetBytes()) <= statistics.MaxSampleValueLength {
		return nil
	}
	short, err := tablecodec.EncodeValue(sc.TimeZone(), nil, types.NewBytesDatum(value.GetBytes()[:statistics.MaxSampleValueLength+1]))
	if err != nil {
		return err
	}
	encoded.SetBytes(short)
	return nil
}
