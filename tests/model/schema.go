package model

import (
	"fmt"
	"math/rand"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
)

const (
	dbName = "test"
	// maxID bounds the ids, so that transactions meet.
	maxID = 200
)

var collations = []string{"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci"}

// randomTable returns a CREATE TABLE statement for a table (id, k, s, n) with
// one of the kinds of primary key.
func randomTable(rng *rand.Rand, name string) string {
	primary := []string{
		"PRIMARY KEY (id) CLUSTERED",
		"PRIMARY KEY (s, id) CLUSTERED",
		"PRIMARY KEY (id) NONCLUSTERED",
		"KEY (id)",
	}[rng.Intn(4)]
	var more string
	if rng.Intn(2) == 0 {
		more = ", UNIQUE KEY u (n, id)"
	}
	return fmt.Sprintf("CREATE TABLE %s (id BIGINT NOT NULL, k INT, s VARCHAR(40) NOT NULL COLLATE %s, n BIGINT, %s%s)",
		name, collations[rng.Intn(len(collations))], primary, more)
}

// randomIndex returns an index definition, "(columns)".
func randomIndex(rng *rand.Rand) string {
	parts := []string{"k", "s", "s(2)", "n", "id", "k DESC"}
	used := map[byte]bool{}
	var cols []string
	for _, i := range rng.Perm(len(parts)) {
		if used[parts[i][0]] {
			continue
		}
		used[parts[i][0]] = true
		cols = append(cols, parts[i])
		if rng.Intn(2) == 0 {
			break
		}
	}
	return "(" + strings.Join(cols, ", ") + ")"
}

// uniqueIndexes are the unique indexes that are tried on columns (id, k, s, n).
var uniqueIndexes = []struct {
	columns string
	parts   []*model.IndexColumn
}{
	{" (n)", []*model.IndexColumn{{Offset: 3, Length: types.UnspecifiedLength}}},
	{" (n, s(2))", []*model.IndexColumn{{Offset: 3, Length: types.UnspecifiedLength}, {Offset: 2, Length: 2}}},
	{" (k, n)", []*model.IndexColumn{{Offset: 1, Length: types.UnspecifiedLength}, {Offset: 3, Length: types.UnspecifiedLength}}},
}
