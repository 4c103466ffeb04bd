package dump

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRoutes: names of Dumpling, mydumper and plain files; those that TiDB Lightning takes for another table are among them.
func TestRoutes(t *testing.T) {
	for base, want := range map[string]route{
		"shop-schema-create.sql":                 {role: roleDatabase, name: Name{"shop", ""}},
		"shop.items-schema.sql":                  {role: roleTable, name: Name{"shop", "items"}},
		"shop.items-schema.sql.gz":               {role: roleTable, name: Name{"shop", "items"}},
		"shop.v-schema-view.sql":                 {role: roleView, name: Name{"shop", "v"}},
		"shop.s-schema-sequence.sql":             {role: roleSequence, name: Name{"shop", "s"}},
		"shop.items-schema-triggers.sql.zst":     {role: roleLeftOut, name: Name{"shop", "items"}, what: "triggers"},
		"shop.items-schema-trigger.sql":          {role: roleLeftOut, name: Name{"shop", "items"}, what: "triggers"},
		"shop-schema-post.sql":                   {role: roleLeftOut, name: Name{"shop", ""}, what: "routines and events"},
		"eu-placement-policy-create.sql":         {role: roleLeftOut, name: Name{"eu", ""}, what: "placement policy"},
		"shop.items.000000001.sql":               {role: roleRows, name: Name{"shop", "items"}},
		"shop.items.00000.00002.sql.zst":         {role: roleRows, name: Name{"shop", "items"}},
		"shop.items.sql":                         {role: roleRows, name: Name{"shop", "items"}},
		"shop.items.csv":                         {role: roleRows, name: Name{"shop", "items"}},
		"shop.items.0.parquet":                   {role: roleRows, name: Name{"shop", "items"}},
		"sh%2Eop.a%25b%2Dschema.0001.csv.snappy": {role: roleRows, name: Name{"sh.op", "a%b-schema"}},
		"a b.c d.sql":                            {role: roleRows, name: Name{"a b", "c d"}},
		"100%.50%x.csv":                          {role: roleRows, name: Name{"100%", "50%x"}},
		"metadata":                               {},
		"items.csv":                              {},
		"shop.items.csv.bak":                     {},
	} {
		require.Equal(t, want, routeName(base, ""), base)
	}
	require.Equal(t, route{role: roleRows, name: Name{"shop", "items"}}, routeName("items.csv", "shop"))
	require.Equal(t, route{role: roleRows, name: Name{"other", "items"}}, routeName("other.items.csv", "shop"))
}

func TestPatternsMatchOneTable(t *testing.T) {
	for _, tc := range []struct {
		own, others []string
		want        string
	}{
		{[]string{"d.t.1.sql", "d.t.2.sql"}, []string{"d.t-schema.sql", "d.u.1.sql"}, "d.t.*.sql"},
		{[]string{"d.t.sql"}, nil, "d.t.sql"},
		{[]string{"d.t.csv", "d.t.1.csv"}, []string{"d.u.csv"}, "d.t*.csv"},
		{[]string{"d.t.csv", "d.t.1.csv"}, []string{"d.tt.csv"}, ""},
		{[]string{"d.t.1.sql", "d.t.2.sql.gz"}, nil, ""},
		{[]string{"d.t[1].0.csv", "d.t[1].1.csv"}, []string{"d.t1.0.csv"}, "d.t[[]1].*.csv"},
		{[]string{"d.t[1].csv"}, nil, "d.t[[]1].csv"},
		{[]string{"d.t?.csv"}, nil, ""},
		{[]string{"d%2Ed.t.csv"}, nil, "d%2Ed.t.csv"},
		{[]string{"d%zz.t.csv"}, nil, ""},
		{[]string{"d@t@0.tsv.zst", "d@t@@1.tsv.zst"}, []string{"d@t.json", "d@t@0.tsv.zst.idx"}, "d@t@*.tsv.zst"},
		{[]string{"d@t.tsv"}, nil, ""},
	} {
		require.Equal(t, tc.want, patternOf(tc.own, append(tc.others, tc.own...)), "%v", tc.own)
	}
}
