package cop

import (
	"context"
	"fmt"
	"hash/crc64"
	"slices"
	"testing"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
)

func checksumOf(t *testing.T, f *fixture, rule *tipb.ChecksumRewriteRule) (*tipb.ChecksumResponse, string) {
	data, err := (&tipb.ChecksumRequest{ScanOn: tipb.ChecksumScanOn_Table, Algorithm: tipb.ChecksumAlgorithm_Crc64_Xor, Rule: rule}).Marshal()
	require.NoError(t, err)
	resp := Handle(context.Background(), f.reader, &coprocessor.Request{Tp: tidbkv.ReqTypeChecksum, Data: data, Ranges: f.ranges})
	answer := &tipb.ChecksumResponse{}
	require.NoError(t, answer.Unmarshal(resp.Data))
	return answer, resp.OtherError
}

func TestChecksum(t *testing.T) {
	f := newFixture(t, 5000)
	want := &tipb.ChecksumResponse{}
	prefix := tablecodec.GenTableRecordPrefix(fixtureTable)
	for i, key := range f.reader.keys {
		if !tidbkv.Key(key).HasPrefix(prefix) {
			continue
		}
		pair := append(append([]byte(nil), key...), f.reader.values[i]...)
		want.Checksum ^= crc64.Checksum(pair, crc64.MakeTable(crc64.ECMA))
		want.TotalKvs++
		want.TotalBytes += uint64(len(pair))
	}
	got, failure := checksumOf(t, f, nil)
	require.Empty(t, failure)
	require.Equal(t, want, got)

	// Halves of the table together have its checksum.
	whole := f.ranges[0]
	middle := tablecodec.EncodeRowKeyWithHandle(fixtureTable, tidbkv.IntHandle(1234))
	f.ranges = []*coprocessor.KeyRange{{Start: whole.Start, End: middle}}
	low, _ := checksumOf(t, f, nil)
	f.ranges = []*coprocessor.KeyRange{{Start: middle, End: whole.End}}
	high, _ := checksumOf(t, f, nil)
	require.Equal(t, want.Checksum, low.Checksum^high.Checksum)
	require.Equal(t, want.TotalKvs, low.TotalKvs+high.TotalKvs)
}

// TestChecksumWithRewriteRule gives a copied table the checksum of its original.
func TestChecksumWithRewriteRule(t *testing.T) {
	f := newFixture(t, 100)
	want, _ := checksumOf(t, f, nil)
	before, after := []byte(tablecodec.GenTableRecordPrefix(fixtureTable)), []byte(tablecodec.GenTableRecordPrefix(fixtureTable+1))
	clone := &memReader{}
	for i, key := range f.reader.keys {
		if tidbkv.Key(key).HasPrefix(before) {
			clone.put(append(append([]byte(nil), after...), key[len(before):]...), f.reader.values[i])
		}
	}
	clone.sort()
	f.reader = clone
	f.ranges = []*coprocessor.KeyRange{{Start: after, End: tidbkv.Key(after).PrefixNext()}}
	got, failure := checksumOf(t, f, &tipb.ChecksumRewriteRule{OldPrefix: before, NewPrefix: after})
	require.Empty(t, failure)
	require.Equal(t, want, got)

	_, failure = checksumOf(t, f, &tipb.ChecksumRewriteRule{OldPrefix: after, NewPrefix: before})
	require.Contains(t, failure, "does not begin with")
}

func TestAdminChecksum(t *testing.T) {
	s := newSQLSession(t)
	s.exec("create table t (id int primary key, v varchar(20), key (v))")
	s.exec("create table u (id int primary key, v varchar(20), key (v))")
	for i := range 10 {
		s.exec(fmt.Sprintf("insert into t values (%d, 'v%d')", i, i))
	}
	rows := s.exec("admin checksum table t, u")
	require.Len(t, rows, 2)
	slices.SortFunc(rows, slices.Compare)
	require.Equal(t, []string{"test", "t"}, rows[0][:2])
	require.NotEqual(t, "0", rows[0][2])
	require.Equal(t, "20", rows[0][3], "ten rows, ten entries")
	require.Equal(t, []string{"test", "u", "0", "0", "0"}, rows[1])
}
