package sql_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pingcap/tidb/br/pkg/restore/ingestrec"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestPointInTimeRecoveryBringsIndexesBack: a log backup does not see what is imported, so
// that BR adds such indexes again after a restore. It finds them in the history of DDL
// jobs, by code that is used here as it is.
func TestPointInTimeRecoveryBringsIndexesBack(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, test := range []struct {
		alter string
		want  []string
	}{
		{"ADD INDEX i (b)", []string{"i (%n)[b]"}},
		{"ADD UNIQUE INDEX u (a, b)", []string{"u (%n,%n)[a b]"}},
		{"ADD PRIMARY KEY (a) NONCLUSTERED", []string{"PRIMARY (%n)[a] primary"}},
		{"ADD INDEX i (c(3)), ADD UNIQUE INDEX u (a), ADD INDEX x ((a + b))", []string{"i (%n(3))[c]", "u (%n)[a]", "x ((`a` + `b`))[]"}},
		{"ADD COLUMN d INT DEFAULT 7, ADD INDEX i (b), DROP INDEX old, COMMENT = 'x'", []string{"i (%n)[b]"}},
	} {
		t.Run(test.alter, func(t *testing.T) {
			c.run("DROP TABLE IF EXISTS t")
			c.run("CREATE TABLE t (a INT NOT NULL, b INT, c VARCHAR(20), INDEX old (c))")
			c.run("INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two')")
			c.run("ALTER TABLE t " + test.alter)
			id := c.one("SELECT MAX(job_id) FROM information_schema.ddl_jobs WHERE table_name = 't'")
			var job model.Job
			require.NoError(t, job.Decode([]byte(c.one("SELECT job_meta FROM mysql.tidb_ddl_history WHERE job_id = %s", id))))

			recorder := ingestrec.New()
			if job.Type == model.ActionMultiSchemaChange {
				for i, sub := range job.MultiSchemaInfo.SubJobs {
					proxy := sub.ToProxyJob(&job, i)
					require.NoError(t, recorder.TryAddJob(&proxy, true))
				}
			} else {
				require.NoError(t, recorder.TryAddJob(&job, false))
			}
			require.NoError(t, recorder.UpdateIndexInfo(e.Domain().InfoSchema()))
			var found []string
			require.NoError(t, recorder.Iterate(func(_, _ int64, info *ingestrec.IngestIndexInfo) error {
				text := fmt.Sprintf("%s (%s)%v", info.IndexInfo.Name.O, info.ColumnList, info.ColumnArgs)
				if info.IsPrimary {
					text += " primary"
				}
				found = append(found, text)
				return nil
			}))
			slices.Sort(found)
			require.Equal(t, test.want, found)
		})
	}
}
