package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// fillHistory copies the last job into the history a thousand times, with 20 points each.
func (j *jobShop) fillHistory() {
	j.t.Helper()
	var columns string
	require.NoError(j.t, j.root.QueryRow(`SELECT GROUP_CONCAT(column_name) FROM information_schema.columns
		WHERE table_schema = 'mysql' AND table_name = 'fastddl_ddl_jobs' AND column_name != 'job_id'`).Scan(&columns))
	exec(j.t, j.root, "CREATE TABLE shop.n (x BIGINT PRIMARY KEY)",
		"INSERT INTO shop.n WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 1000) SELECT x FROM n")
	require.NoError(j.t, j.node.layer.DDL().WithSystemSession(func(sctx sessionctx.Context) error {
		ctx := tidbkv.WithInternalSourceType(j.t.Context(), tidbkv.InternalTxnDDL)
		for _, query := range []string{
			fmt.Sprintf(`INSERT INTO mysql.fastddl_ddl_jobs (job_id, %s) SELECT x - 1001, %[1]s FROM shop.n
				JOIN (SELECT * FROM mysql.fastddl_ddl_jobs ORDER BY job_id DESC LIMIT 1) AS last`, columns),
			"INSERT INTO mysql.fastddl_ddl_points (job_id, second, seconds) SELECT n.x - 1001, m.x, 1 FROM shop.n JOIN shop.n AS m WHERE m.x <= 20",
		} {
			if _, _, err := sctx.GetRestrictedSQLExecutor().ExecRestrictedSQL(ctx, nil, query); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestFollowersAndReadersBesideABuild: 1,000 followers of one job (200 in a slice) and 200 requests a second beside a build and a full history. No request
// fails, all followers see the end, and sessions stay few. FASTDDL_LONG=1 does it for a minute, and logs how long a build takes without and with them.
func TestFollowersAndReadersBesideABuild(t *testing.T) {
	randtest.SkipShort(t)
	followers, perSecond := 200, 200
	if randtest.Long() {
		followers = 1000
	}
	during := randtest.Time(t, 5*time.Second, time.Minute)
	j := startJobShop(t)
	exec(t, j.root, "CREATE TABLE shop.big (id BIGINT PRIMARY KEY AUTO_INCREMENT, a INT, b INT)",
		"INSERT INTO shop.big (a, b) WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 1000) SELECT a.x, b.x * 7 FROM n a JOIN n b WHERE b.x <= 20")
	for range 3 {
		exec(t, j.root, "INSERT INTO shop.big (a, b) SELECT a, b + 1 FROM shop.big")
	}
	exec(t, j.root, "CREATE TABLE shop.built LIKE shop.big", "INSERT INTO shop.built SELECT * FROM shop.big")
	build := func(name string) time.Duration {
		began := time.Now()
		exec(t, j.root, fmt.Sprintf("ALTER TABLE shop.built ADD INDEX %s (b)", name))
		return time.Since(began)
	}
	alone := build("alone")
	j.fillHistory()
	c := j.api("alterer")
	exec(t, j.root, "GRANT ALTER, INDEX ON shop.big TO alterer")
	var made struct {
		JobID int64 `json:"job_id"`
	}
	c.must("POST", "jobs", `{"schema": "shop", "statement": "CREATE INDEX followed ON big (a)", "settings": {"publish": "manual"}}`, &made)
	path := fmt.Sprintf("jobs/%d", made.JobID)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var ends, refused atomic.Int64
	var following, reading sync.WaitGroup
	for range followers {
		following.Go(func() {
			resp, err := client.Do(c.request("GET", path+"/events", ""))
			if err != nil {
				refused.Add(1)
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(text), "event: end") {
				ends.Add(1)
			}
		})
	}
	var failures sync.Map
	var asked, most atomic.Int64
	paths := []string{"jobs", path, path + "/points", "settings", "blockers", "jobs?state=active&limit=10", "session"}
	get := func(path string) {
		resp, err := client.Do(c.request("GET", path, ""))
		if err != nil {
			failures.Store(path, err.Error())
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !json.Valid(text) {
			failures.Store(path, fmt.Sprint(resp.StatusCode, string(text), err))
		}
	}
	slots := make(chan struct{}, 64) // a busy machine answers fewer
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	began := time.Now()
	beside := make(chan time.Duration, 1)
	go func() { beside <- build("beside") }()
	for i := 0; time.Since(began) < during; i++ {
		<-ticker.C
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		asked.Add(1)
		reading.Go(func() {
			defer func() { <-slots }()
			get(paths[i%len(paths)])
		})
		most.Store(max(most.Load(), int64(j.apiSessions.count())))
	}
	reading.Wait()
	c.must("POST", path+"/publish", "{}", nil)
	t.Logf("%d requests in %s, at most %d sessions; a build of %s took %s beside them", asked.Load(), during, most.Load(), alone, <-beside)
	following.Wait()
	require.Zero(t, refused.Load())
	require.EqualValues(t, followers, ends.Load())
	failures.Range(func(path, why any) bool {
		t.Errorf("%v: %v", path, why)
		return true
	})
	require.LessOrEqual(t, most.Load(), int64(40), "followers have no sessions of their own")
}
