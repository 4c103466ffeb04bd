package rows

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/stretchr/testify/require"
	"github.com/xitongsys/parquet-go/parquet"
	"github.com/xitongsys/parquet-go/writer"

	"fastddl/internal/randtest"
)

// parquetText writes rows of a struct type into a Parquet file.
func parquetText[T any](t testing.TB, codec parquet.CompressionCodec, groupBytes int64, rows ...T) string {
	t.Helper()
	var b bytes.Buffer
	w, err := writer.NewParquetWriterFromWriter(&b, new(T), 1)
	require.NoError(t, err)
	w.CompressionType, w.RowGroupSize, w.PageSize = codec, groupBytes, 256
	for _, row := range rows {
		require.NoError(t, w.Write(row))
	}
	require.NoError(t, w.WriteStop())
	return b.String()
}

type parquetRow struct {
	I *int32  `parquet:"name=i, type=INT32"`
	L int64   `parquet:"name=l, type=INT64"`
	U int64   `parquet:"name=u, type=INT64, convertedtype=UINT_64"`
	B bool    `parquet:"name=b, type=BOOLEAN"`
	F float32 `parquet:"name=f, type=FLOAT"`
	D float64 `parquet:"name=d, type=DOUBLE"`
	S *string `parquet:"name=s, type=BYTE_ARRAY, convertedtype=UTF8, encoding=PLAIN_DICTIONARY"`
	N int64   `parquet:"name=n, type=INT64, convertedtype=DECIMAL, scale=3, precision=18"`
	M string  `parquet:"name=m, type=FIXED_LEN_BYTE_ARRAY, length=3, convertedtype=DECIMAL, scale=4, precision=6"`
	A int32   `parquet:"name=a, type=INT32, convertedtype=DATE"`
	T int64   `parquet:"name=t, type=INT64, convertedtype=TIMESTAMP_MICROS"`
	C int32   `parquet:"name=c, type=INT32, convertedtype=TIME_MILLIS"`
}

const parquetTable = "create table t (i int, l bigint, u bigint unsigned, b tinyint(1), f float, d double, s varchar(20), n decimal(18,3), m decimal(9,4), a date, t datetime(6), c time(3))"

// Values of Parquet's types become those of the columns, NULLs too, through every codec.
func TestParquetTypes(t *testing.T) {
	i, s := int32(-5), "text"
	for _, codec := range []parquet.CompressionCodec{parquet.CompressionCodec_UNCOMPRESSED, parquet.CompressionCodec_SNAPPY, parquet.CompressionCodec_GZIP, parquet.CompressionCodec_ZSTD} {
		text := parquetText(t, codec, 1<<20,
			parquetRow{&i, 1 << 40, -1, true, 0.5, -2.25, &s, -5, "\xff\xff\xfe", -1, 1700000000123456, 3723004},
			parquetRow{nil, -1, 7, false, -1.5, 1e10, nil, 1234567, "\x00\x01\x00", 19000, -1, 0})
		rows := statement{create: parquetTable, format: "parquet", files: map[string]string{"t.parquet": text}}.read(t)
		require.Equal(t, []string{
			"-5|1099511627776|18446744073709551615|1|0.5|-2.25|text|-0.005|-0.0002|1969-12-31|2023-11-14 22:13:20.123456|01:02:03.004",
			"NULL|-1|7|0|-1.5|10000000000|NULL|1234.567|0.0256|2022-01-08|1969-12-31 23:59:59.999999|00:00:00.000",
		}, rows)
	}
}

// Columns are matched by name; by position only if no name contradicts it, as TiDB does.
func TestParquetColumnsByName(t *testing.T) {
	type swapped struct {
		B int32 `parquet:"name=b, type=INT32"`
		A int32 `parquet:"name=A, type=INT32"`
	}
	type unnamed struct {
		A int32 `parquet:"name=a, type=INT32"`
		X int32 `parquet:"name=x, type=INT32"`
	}
	type contradicting struct {
		B int32 `parquet:"name=b, type=INT32"`
		X int32 `parquet:"name=x, type=INT32"`
	}
	s := statement{create: "create table t (a int, b int)", format: "parquet"}
	read := func(text string) ([]string, error) {
		s.files = map[string]string{"t.parquet": text}
		return s.tryRead(t)
	}
	rows, err := read(parquetText(t, 0, 1<<20, swapped{B: 2, A: 1}))
	require.NoError(t, err)
	require.Equal(t, []string{"1|2"}, rows)
	rows, err = read(parquetText(t, 0, 1<<20, unnamed{1, 2}))
	require.NoError(t, err)
	require.Equal(t, []string{"1|2"}, rows)
	_, err = read(parquetText(t, 0, 1<<20, contradicting{1, 2}))
	requireCode(t, mysql.ErrBadField, err)
	s.columns = "(a, b)"
	rows, err = read(parquetText(t, 0, 1<<20, contradicting{1, 2}))
	require.NoError(t, err)
	require.Equal(t, []string{"1|2"}, rows)
}

// A file of many row groups is read in chunks, from any row on.
func TestParquetChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(randtest.Seed(t), 1))
	var in []parquetRow
	var want []string
	for k := range int64(500) {
		text := fmt.Sprintf("text %d", k%7)
		in = append(in, parquetRow{L: k, S: &text, M: "\x00\x00\x00"})
		want = append(want, fmt.Sprint(k))
	}
	s := statement{create: parquetTable, format: "parquet", files: map[string]string{"t.parquet": parquetText(t, parquet.CompressionCodec_SNAPPY, 4<<10, in...)}, chunkBytes: 8 << 10}
	source := s.open(t)
	require.Greater(t, len(source.Chunks()), 3)
	var got []string
	for _, c := range source.Chunks() {
		for !c.Done {
			reader, err := source.NewReader(t.Context(), c, NewIDs(State{}))
			require.NoError(t, err)
			for range r.IntN(100) {
				if _, err := reader.Next(t.Context()); err != nil {
					break
				}
				got = append(got, fmt.Sprint(reader.enc.row[1].GetInt64()))
			}
			c = reader.Rest()
			require.NoError(t, reader.Close())
		}
	}
	require.Equal(t, want, got)
}

// Any byte of a file may be wrong, and a file may end anywhere: that is an error or the rows, never a panic, a hang
// or fewer rows.
func TestCorruptParquet(t *testing.T) {
	r := rand.New(rand.NewPCG(randtest.Seed(t), 1))
	var in []parquetRow
	for k := range int64(60) {
		text := fmt.Sprintf("text %d", k%7)
		in = append(in, parquetRow{L: k, S: &text, M: "\x00\x00\x00"})
	}
	text := parquetText(t, parquet.CompressionCodec_SNAPPY, 4<<10, in...)
	s := statement{create: parquetTable, format: "parquet"}
	failed := 0
	for range 300 {
		b := []byte(text)
		if r.IntN(4) == 0 {
			b = b[:r.IntN(len(b))]
		} else {
			for range 1 + r.IntN(3) {
				b[r.IntN(len(b))] ^= byte(1 << r.IntN(8))
			}
		}
		s.files = map[string]string{"t.parquet": string(b)}
		rows, err := s.tryRead(t)
		var row *RowError
		if err == nil {
			require.Len(t, rows, len(in))
		} else if !errors.As(err, &row) {
			failed++
		}
	}
	require.Greater(t, failed, 50)
}
