package rows

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/pingcap/tidb/pkg/lightning/common"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// A reader that goes on from a Rest returns the rows behind it, in every format, and IDs go on behind those used.
func TestRestGoesOn(t *testing.T) {
	r := rand.New(rand.NewPCG(randtest.Seed(t), 1))
	var csv, sql strings.Builder
	for i := range 300 {
		fmt.Fprintf(&csv, "%d,\"x\ny%d\"\r\n", i, i)
		if i%50 == 0 {
			sql.WriteString(";\ninsert into `t` (b, a) values\n")
		} else {
			sql.WriteString(",\n")
		}
		fmt.Fprintf(&sql, "('x\ny%d', %d)", i, i)
	}
	for _, s := range []statement{
		{files: map[string]string{"t.csv": csv.String()}, chunkBytes: 500},
		{files: map[string]string{"t.csv.gz": gzipped(t, csv.String())}, path: "*.gz"},
		{files: map[string]string{"t.sql": sql.String()}, format: "sql"},
		{files: map[string]string{"t.sql.gz": gzipped(t, sql.String())}, path: "*.gz", format: "sql"},
	} {
		s.create = "create table t (id int primary key auto_increment, a int, b varchar(20))"
		if s.format == "" {
			s.columns = "(a, b)"
		}
		source := s.open(t)
		ids := NewIDs(State{})
		seen := make(map[string]bool)
		n := 0
		for _, c := range source.Chunks() {
			for !c.Done {
				reader, err := source.NewReader(t.Context(), c, ids)
				require.NoError(t, err)
				for range r.IntN(40) {
					pairs, err := reader.Next(t.Context())
					if err == io.EOF {
						break
					}
					require.NoError(t, err)
					row := strings.SplitN(rowText(t, source.table, pairs), "|", 2)
					require.Equal(t, fmt.Sprintf("%d|x\ny%d", n, n), row[1])
					require.False(t, seen[row[0]], "ID %s twice", row[0])
					seen[row[0]] = true
					n++
				}
				kept, err := json.Marshal(reader.Rest())
				require.NoError(t, err)
				state, err := json.Marshal(ids.State())
				require.NoError(t, err)
				require.NoError(t, reader.Close())
				// A crash: what is not in the checkpoint is forgotten.
				c = Chunk{}
				require.NoError(t, json.Unmarshal(kept, &c))
				var from State
				require.NoError(t, json.Unmarshal(state, &from))
				ids = NewIDs(from)
			}
		}
		require.Equal(t, 300, n)
	}
}

// Tables with hidden row IDs are read from many files and chunks side by side: every row is there once, under a
// row ID of its own, and the state says the largest.
func TestRowIDsOfManyFilesAreUnique(t *testing.T) {
	for _, option := range []string{"", " shard_row_id_bits = 3"} {
		files := make(map[string]string)
		for i := range 8 {
			var b strings.Builder
			for k := range 500 * (i%3 + 1) {
				fmt.Fprintf(&b, "%d,%s\n", i*10000+k, strings.Repeat("x", i*20))
			}
			files[fmt.Sprintf("t%d.csv", i)] = b.String()
		}
		s := statement{create: "create table t (a int, b varchar(200))" + option, files: files, chunkBytes: 4 << 10}
		source := s.open(t)
		ids := NewIDs(State{})
		var mu sync.Mutex
		handles, values := make(map[string]bool), make(map[string]bool)
		var wg sync.WaitGroup
		chunks := make(chan Chunk, len(source.Chunks()))
		for _, c := range source.Chunks() {
			chunks <- c
		}
		close(chunks)
		for range 4 {
			wg.Go(func() {
				for c := range chunks {
					each(t, source, c, ids, func(pairs []common.KvPair) {
						_, h, err := tablecodec.DecodeRecordKey(pairs[0].Key)
						require.NoError(t, err)
						text := rowText(t, source.table, pairs)
						mu.Lock()
						defer mu.Unlock()
						require.False(t, handles[h.String()], "row ID %v twice", h)
						require.False(t, values[text], "row %s twice", text)
						handles[h.String()], values[text] = true, true
					})
				}
			})
		}
		wg.Wait()
		require.Len(t, values, 500*(1+2+3)*2+500*(1+2))
		state := ids.State()
		require.GreaterOrEqual(t, state.RowID, int64(len(values)))
		require.Less(t, state.RowID, int64(3*len(values)), "IDs follow the number of rows")
	}
}

func each(t *testing.T, source *Source, c Chunk, ids *IDs, fn func([]common.KvPair)) {
	reader, err := source.NewReader(t.Context(), c, ids)
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	for {
		pairs, err := reader.Next(t.Context())
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		fn(pairs)
	}
}

// The places of rows that collide, by their collation only, are found; lines count from the beginning of the file.
func TestPlacesOfDuplicates(t *testing.T) {
	s := statement{
		create:     "create table t (id int primary key auto_increment, b varchar(20) collate utf8mb4_general_ci, unique key (b))",
		columns:    "(b)",
		files:      map[string]string{"1.csv": "x\ny\na\nz\n", "2.csv": "\"q\nr\"\n\nA\nä\na  \nw\n"},
		chunkBytes: 4,
	}
	source := s.open(t)
	count := make(map[string]int)
	ids := NewIDs(State{})
	for _, c := range source.Chunks() {
		each(t, source, c, ids, func(pairs []common.KvPair) {
			for _, p := range pairs {
				count[string(p.Key)]++
			}
		})
	}
	var keys [][]byte
	for key, n := range count {
		if n > 1 {
			keys = append(keys, []byte(key))
		}
	}
	require.Len(t, keys, 1)
	places, err := source.Places(t.Context(), keys, 100)
	require.NoError(t, err)
	var lines []string
	for _, p := range places[string(keys[0])] {
		lines = append(lines, p.String())
	}
	require.Equal(t, []string{"file 1.csv, line 3", "file 2.csv, line 4", "file 2.csv, line 5", "file 2.csv, line 6"}, lines)
}
