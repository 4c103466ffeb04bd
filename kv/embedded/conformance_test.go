package embedded_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore"
	"github.com/stretchr/testify/require"

	"fastddl/kv/embedded"
	"fastddl/kv/embedded/conformance"
	"fastddl/kv/pebblekv"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		Open: func(t *testing.T) conformance.Target {
			opts := embedded.Options{Pebble: pebblekv.Options{FS: vfs.NewMem()}}
			if strings.Contains(t.Name(), "/wait/") {
				opts.Txn.MaxLockWait = time.Minute // who stops waiting because the machine is slow loses its place
			}
			s, err := embedded.Open("db", opts)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return conformance.Target{Client: s.Client(), PD: s.PDClient()}
		},
	})
}

// TestConformanceOfUnistore asks TiDB's own test store for a second opinion on the suite.
func TestConformanceOfUnistore(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		Open: func(t *testing.T) conformance.Target {
			client, pd, cluster, err := unistore.New(t.TempDir(), nil)
			require.NoError(t, err)
			unistore.BootstrapWithSingleStore(cluster)
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			return conformance.Target{Client: client, PD: pd}
		},
		Differs: unistoreDiffers,
	})
}

// unistoreDiffers lists where unistore is known not to do what TiKV does.
var unistoreDiffers = map[string]string{
	"read/not_found":                                         "does not set not_found",
	"read/scan_key_only":                                     "returns values all the same",
	"read/rc_check_ts":                                       "reports conflicts in the pairs of a scan",
	"prewrite/conflict_with_a_lock_record":                   "keeps no record of keys that were only locked",
	"lock/conflict_with_a_lock_record":                       "keeps no record of keys that were only locked",
	"prewrite/after_rollback":                                "answers with an error of its own",
	"prewrite/assertions":                                    "checks the assertions of locked keys at the fast level too",
	"prewrite/pessimistic_lock_missing":                      "answers with abort instead of retryable",
	"prewrite/pessimistic_amended":                           "does not amend missing locks",
	"prewrite/pessimistic_for_update_ts_constraint":          "answers with abort instead of retryable",
	"prewrite/optimistic_over_a_pessimistic_lock_of_its_own": "does not look at the lock's type",
	"prewrite/retry_of_unlocked_keys_is_checked":             "does not know retried requests",
	"1pc/repeated":                                           "does not find the first commit",
	"wait/oldest_first":                                      "wakes the others after 100 ms",
	"commit/pessimistic_lock":                                "ignores it",
	"wait/deadlock_key":                                      "leaves the key out",
	"wait/info":                                              "does not list the waiters",
	"resolve/scan_locks":                                     "leaves out transactions that began at the very timestamp",
	"region/key_not_in_region":                               "does not check keys that are read",
	"admin/destroy_range":                                    "does nothing",
	"admin/safe_ts":                                          "has none",
	"pd/service_safe_points":                                 "does not let a service go forward past another",
	"lock/force_again":                                       "panics",
	"status/not_the_primary_and_pessimistic":                 "reports the mismatch to all clients",
}
