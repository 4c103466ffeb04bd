package idle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestQuotaInAContainer: in a container with a quota of one processor, of which others use 40%, a process with two busy threads makes
// the kernel stop all in each period. With a Quota it does so in few, also if the process has a group of its own in the container's.
func TestQuotaInAContainer(t *testing.T) {
	randtest.SkipShort(t)
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own group %v", own), func(t *testing.T) {
			dir := container(t, "cpu")
			group := quotaGroup{version: 1, dir: dir}
			require.NoError(t, writeFile(filepath.Join(dir, "cpu.cfs_quota_us"), "100000")) // of 100 ms
			join := dir
			if own {
				join = filepath.Join(dir, groupPrefix+"1-1")
				require.NoError(t, os.Mkdir(join, 0o755))
				t.Cleanup(func() {
					require.Eventually(t, func() bool { return os.Remove(join) == nil }, time.Minute, 10*time.Millisecond)
				})
			}
			// This machine's groups of controller cpuacct may be others: there is one with the same name.
			accounts, err := kernel.membership(0, "cpuacct")
			require.NoError(t, err)
			account := filepath.Join(accounts.dir, filepath.Base(dir))
			if err := os.Mkdir(account, 0o755); err == nil {
				t.Cleanup(func() {
					require.Eventually(t, func() bool { return os.Remove(account) == nil }, time.Minute, 10*time.Millisecond)
				})
			} else if !errors.Is(err, os.ErrExist) {
				t.Skip(err)
			}
			others := spin(t, 1, -1, nil, joinVariable+"="+dir+","+account)
			others.busy(t, 0.4)
			p := spin(t, 2, -1, &Options{}, joinVariable+"="+join+","+account)

			// stopped returns how often the group was stopped, and what the process used, per second.
			stopped := func(d time.Duration, each func()) (times, used float64) {
				n, err := group.throttled()
				require.NoError(t, err)
				from, began := p.cpu(t), time.Now()
				for time.Since(began) < d {
					each()
					time.Sleep(QuotaInterval)
				}
				after, err := group.throttled()
				require.NoError(t, err)
				seconds := time.Since(began).Seconds()
				return float64(after-n) / seconds, (p.cpu(t) - from).Seconds() / seconds
			}
			without, usedWithout := stopped(2*time.Second, func() {})
			q := NewQuota(p.Pid())
			var last QuotaDecision
			sample := func() {
				last, err = q.Sample(time.Now(), 2)
				require.NoError(t, err)
				require.True(t, last.Limited)
				p.busy(t, last.Share)
			}
			stopped(5*time.Second, sample)
			with, usedWith := stopped(3*time.Second, sample)
			t.Logf("stopped %.1f times a second at %.2f processors, with a quota %.1f at %.2f: %+v", without, usedWithout, with, usedWith, last)
			require.LessOrEqual(t, with, max(1, without/4))
			require.Positive(t, usedWith)
		})
	}
}
