package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Who is ended for a job that waits, in which order, and why not.
func TestBlockerPolicy(t *testing.T) {
	idle := func(id uint64, age, idle time.Duration) Blocker {
		return Blocker{ConnID: id, User: "app", Age: age * time.Second, Idle: idle * time.Second, Keys: id}
	}
	running := func(id uint64, age time.Duration) Blocker { return idle(id, age, 0) }
	some := []Blocker{running(1, 100), idle(2, 50, 10), idle(3, 60, 1), running(4, 5)}
	for _, test := range []struct {
		name   string
		policy BlockerPolicy
		found  []Blocker
		want   []string
	}{
		{"none", BlockerPolicy{}, some, []string{"3 idle", "2 idle", "1 runs a statement", "4 runs a statement"}},
		{
			"too long idle", BlockerPolicy{IdleTimeout: 10 * time.Second}, some,
			[]string{"3 idle", "2 ended: idle for 10s", "1 runs a statement", "4 runs a statement"},
		},
		{
			"too old, idle ones first", BlockerPolicy{MaxAge: time.Minute}, some,
			[]string{"3 ended: open for 1m0s", "2 idle", "1 open for 1m40s, but idle ones are ended first", "4 runs a statement"},
		},
		{
			"too old, none idle", BlockerPolicy{MaxAge: time.Minute}, []Blocker{some[0], some[1], some[3]},
			[]string{"2 idle", "1 ended: open for 1m40s", "4 runs a statement"},
		},
		{
			"much work", BlockerPolicy{IdleTimeout: time.Second, MaxAge: time.Second, SparedKeys: 2}, some,
			[]string{"3 spared: it has written 3 keys", "2 ended: idle for 10s", "1 open for 1m40s, but idle ones are ended first", "4 spared: it has written 4 keys"},
		},
		{"users", BlockerPolicy{IdleTimeout: time.Second, SparedUsers: ParseUsers(" backup , APP,")}, some[1:2], []string{"2 spared: user app"}},
		{"other users", BlockerPolicy{IdleTimeout: time.Second, SparedUsers: ParseUsers("backup")}, some[1:2], []string{"2 ended: idle for 10s"}},
	} {
		var got []string
		for _, v := range test.policy.Judge(test.found) {
			if v.End {
				v.Why = "ended: " + v.Why
			}
			got = append(got, fmt.Sprintf("%d %s", v.ConnID, v.Why))
		}
		require.Equal(t, test.want, got, test.name)
	}
	require.Empty(t, ParseUsers(""))
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, ParseUsers("a@%, 'b'@'localhost',`c`, \"d\"@10.0.0.1 ,'e',''@'%'"))
}
