package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatementKind(t *testing.T) {
	for query, want := range map[string]string{
		"SELECT 1":                          "select",
		"  \n\t(select 1) union (select 2)": "select",
		"/* a */ /*+ b */ insert into t":    "insert",
		"-- comment\n# another\nUPDATE t":   "update",
		"alter table t add index (a)":       "alter",
		"commit":                            "commit",
		";;commit;":                         "commit",
		"selects":                           "other",
		"":                                  "other",
		"/* never closed":                   "other",
		"-- only a comment":                 "other",
		"123":                               "other",
		"deallocate prepare s":              "deallocate",
		"averyveryverylongword":             "other",
	} {
		require.Equal(t, want, statementKind(query), "%q", query)
	}
}
