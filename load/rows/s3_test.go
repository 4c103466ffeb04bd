package rows

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/stretchr/testify/require"
)

// bucket answers as storage that speaks S3, for what TiDB's storage library asks of it: its objects' list, and parts
// of an object.
func bucket(t *testing.T, objects map[string]string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
		if key == "" {
			w.Header().Set("X-Amz-Bucket-Region", "us-east-1")
			w.Header().Set("Content-Type", "application/xml")
			fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>`)
			var keys []string
			for k := range objects {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			for _, k := range keys {
				fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", k, len(objects[k]))
			}
			fmt.Fprint(w, "</ListBucketResult>")
			return
		}
		text, ok := objects[key]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		http.ServeContent(w, r, "", time.Unix(0, 0), strings.NewReader(text))
	}))
	t.Cleanup(server.Close)
	return "s3://bucket/%s?force-path-style=true&access-key=a&secret-access-key=b&region=us-east-1&endpoint=" + server.URL
}

// Files of S3-compatible storage are read as local ones: cut, compressed, from a rest, and Parquet.
func TestFilesInS3(t *testing.T) {
	type row struct {
		A int64  `parquet:"name=a, type=INT64"`
		B string `parquet:"name=b, type=BYTE_ARRAY"`
	}
	var csv, sql strings.Builder
	var parquetRows []row
	var want []string
	for i := range 400 {
		fmt.Fprintf(&csv, "%d,\"text\n%d\"\n", i, i)
		fmt.Fprintf(&sql, "insert into t values (%d,'text\n%d');\n", i, i)
		parquetRows = append(parquetRows, row{int64(i), fmt.Sprintf("text\n%d", i)})
		want = append(want, fmt.Sprintf("%d|text\n%d", i, i))
	}
	url := bucket(t, map[string]string{
		"t.csv": csv.String(), "z.csv.gz": gzipped(t, csv.String()), "t.sql": sql.String(), "t.parquet": parquetText(t, 1, 4<<10, parquetRows...),
	})
	for path, format := range map[string]string{"t.*csv": "csv", "t.csv": "csv", "z.csv.gz": "csv", "*.sql": "sql", "t.parquet": "parquet"} {
		s := statement{create: "create table t (a int, b varchar(20))", format: format, plan: func(p *importer.Plan) { p.Path = fmt.Sprintf(url, path) }, chunkBytes: 1 << 10}
		source := s.open(t)
		var got []string
		for _, c := range source.Chunks() {
			for !c.Done {
				r, err := source.NewReader(t.Context(), c, NewIDs(State{}))
				require.NoError(t, err, path)
				for range 150 {
					pairs, err := r.Next(t.Context())
					if err == io.EOF {
						break
					}
					require.NoError(t, err, path)
					got = append(got, rowText(t, source.table, pairs))
				}
				c = r.Rest()
				require.NoError(t, r.Close())
			}
		}
		require.Equal(t, want, got, path)
	}
}
