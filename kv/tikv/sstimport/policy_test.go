package sstimport

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fastddl/kv"
)

func TestClassifyError(t *testing.T) {
	answered := func(e *errorpb.Error) error {
		return &storeError{&store{id: 1}, &metapb.Region{Id: 2}, regionError{e}}
	}
	broken := func(code codes.Code, text string) error {
		return &storeError{&store{id: 1}, &metapb.Region{Id: 2}, status.Error(code, text)}
	}
	for name, c := range map[string]struct {
		at   stage
		err  error
		want action
		busy time.Duration // -1 is not
	}{
		"not the leader":              {ingesting, answered(&errorpb.Error{NotLeader: &errorpb.NotLeader{}}), locateAgain, -1},
		"another epoch":               {ingesting, answered(&errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}), locateAgain, -1},
		"another epoch while writing": {writing, answered(&errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}), locateAgain, -1},
		"region not found":            {ingesting, answered(&errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{}}), locateAgain, -1},
		"region not initialized":      {ingesting, answered(&errorpb.Error{RegionNotInitialized: &errorpb.RegionNotInitialized{}}), locateAgain, -1},
		"key not in region":           {ingesting, answered(&errorpb.Error{KeyNotInRegion: &errorpb.KeyNotInRegion{}}), locateAgain, -1},
		"another store":               {ingesting, answered(&errorpb.Error{StoreNotMatch: &errorpb.StoreNotMatch{}}), locateAgain, -1},
		"another peer":                {ingesting, answered(&errorpb.Error{MismatchPeerId: &errorpb.MismatchPeerId{}}), locateAgain, -1},
		"proposal dropped":            {ingesting, answered(&errorpb.Error{Message: "raft: proposal dropped"}), locateAgain, -1},
		"still taking the files":      {ingesting, answered(&errorpb.Error{Message: "ingest file conflict"}), ingestAgain, 0},
		"stale command":               {ingesting, answered(&errorpb.Error{StaleCommand: &errorpb.StaleCommand{}}), writeAgain, -1},
		"busy":                        {ingesting, answered(&errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}), ingestAgain, 0},
		"suspended":                   {ingesting, answered(&errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{BackoffMs: 3000}}), ingestAgain, 3 * time.Second},
		"busy while writing":          {writing, answered(&errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}), writeAgain, 0},
		"merging":                     {ingesting, answered(&errorpb.Error{ProposalInMergingMode: &errorpb.ProposalInMergingMode{}}), ingestAgain, -1},
		"splitting":                   {ingesting, answered(&errorpb.Error{ReadIndexNotReady: &errorpb.ReadIndexNotReady{}}), ingestAgain, -1},
		"recovering":                  {writing, answered(&errorpb.Error{RecoveryInProgress: &errorpb.RecoveryInProgress{}}), writeAgain, -1},
		"disk full":                   {ingesting, answered(&errorpb.Error{DiskFull: &errorpb.DiskFull{}}), giveUp, -1},
		"flashback":                   {ingesting, answered(&errorpb.Error{FlashbackInProgress: &errorpb.FlashbackInProgress{}}), giveUp, -1},
		"file too old":                {writing, writeError{"RequestTooOld: rescan"}, locateAgain, -1},
		"file too new":                {writing, writeError{"RequestTooNew: retry"}, writeAgain, -1},
		"file too new, as a status":   {writing, broken(codes.Unknown, "RequestTooNew(\"...\")"), writeAgain, -1},
		"file too old, as a status":   {writing, broken(codes.Unknown, "RequestTooOld(\"...\")"), locateAgain, -1},
		"no space, as a status":       {writing, broken(codes.Unknown, "DiskSpaceNotEnough"), giveUp, -1},
		"no space for a file":         {writing, writeError{"DiskSpaceNotEnough"}, giveUp, -1},
		"API version":                 {writing, broken(codes.Unknown, "IncompatibleApiVersion"), giveUp, -1},
		"damaged file":                {writing, writeError{"bad format"}, locateAgain, -1},
		"disconnected while writing":  {writing, broken(codes.Unavailable, "transport is closing"), locateAgain, -1},
		"disconnected":                {ingesting, broken(codes.Unavailable, "transport is closing"), ingestAgain, -1},
		"the store was stopped":       {ingesting, broken(codes.Canceled, "the server is going away"), locateAgain, -1},
		"no answer":                   {ingesting, broken(codes.DeadlineExceeded, "too late"), ingestAgain, -1},
		"no answer to a file":         {writing, broken(codes.DeadlineExceeded, "too late"), locateAgain, -1},
		"no memory for a file":        {writing, broken(codes.Unknown, "ResourceNotEnough(\"high memory usage\")"), writeAgain, 0},
		"does not go on":              {writing, fmt.Errorf("%w: %w", errStalled, io.EOF), locateAgain, -1},
		"no such service":             {writing, broken(codes.Unimplemented, "unknown service"), giveUp, -1},
		"no rights":                   {writing, broken(codes.Unauthenticated, "who are you"), giveUp, -1},
		"store is gone":               {writing, errors.New("store 1 is gone"), locateAgain, -1},
		"PD does not answer":          {locating, status.Error(codes.Unavailable, "no leader"), locateAgain, -1},
		"no region":                   {locating, fmt.Errorf("key: %w", errNoRegion), locateAgain, -1},
		"no leader":                   {writing, fmt.Errorf("region: %w", errNoLeader), locateAgain, -1},
		"lease lost":                  {ingesting, &leaseError{errors.New("lost")}, giveUp, -1},
		"file lost":                   {writing, &sourceError{"path", os.ErrNotExist}, giveUp, -1},
	} {
		t.Run(name, func(t *testing.T) {
			d := classifyError(c.at, c.err)
			require.Equal(t, c.want, d.next)
			require.ErrorIs(t, d.err, c.err)
			require.Equal(t, c.busy >= 0, d.busy)
			if d.busy {
				require.Equal(t, c.busy, d.wait)
			}
		})
	}
	require.ErrorIs(t, classifyError(ingesting, answered(&errorpb.Error{DiskFull: &errorpb.DiskFull{}})).err, kv.ErrDiskFull)
}

func TestRetryBudget(t *testing.T) {
	l := limits{attempts: 3, total: time.Hour, backoff: exponentialBackoff}
	now := time.Unix(0, 0)
	first, second := errors.New("first"), errors.New("second")
	failure := func(err error) decision { return decision{next: writeAgain, err: err} }

	t.Run("attempts", func(t *testing.T) {
		var b retryBudget
		for _, want := range []time.Duration{50, 100} {
			pause, err := b.failed(now, failure(first), l)
			require.NoError(t, err)
			require.Equal(t, want*time.Millisecond, pause)
		}
		_, err := b.failed(now, failure(second), l)
		require.ErrorIs(t, err, first, "what it began with")
		require.ErrorIs(t, err, second)
	})
	t.Run("progress", func(t *testing.T) {
		var b retryBudget
		for range 10 {
			_, err := b.failed(now, failure(first), l)
			require.NoError(t, err)
			b.reset()
		}
	})
	t.Run("time", func(t *testing.T) {
		var b retryBudget
		busy := decision{next: ingestAgain, busy: true, err: first}
		for range 100 {
			_, err := b.failed(now, busy, l)
			require.NoError(t, err, "a busy store is not counted")
		}
		_, err := b.failed(now.Add(time.Hour), busy, l)
		require.ErrorIs(t, err, first)
		require.ErrorContains(t, err, "101 errors in 1h0m0s")
	})
	t.Run("what a store says", func(t *testing.T) {
		var b retryBudget
		pause, err := b.failed(now, decision{next: ingestAgain, busy: true, wait: time.Second, err: first}, l)
		require.NoError(t, err)
		require.Equal(t, time.Second, pause)
		pause, err = b.failed(now, decision{next: ingestAgain, busy: true, wait: time.Hour, err: first}, l)
		require.NoError(t, err)
		require.Equal(t, maxWait, pause)
	})
	t.Run("nothing but busy", func(t *testing.T) {
		l := limits{attempts: 3, total: time.Hour, backoff: exponentialBackoff}
		var busy retryBudget
		var pauses []time.Duration
		for range 6 {
			pause, err := busy.failed(now, decision{next: ingestAgain, busy: true, err: first}, l)
			require.NoError(t, err)
			pauses = append(pauses, pause/time.Millisecond)
		}
		require.Equal(t, []time.Duration{50, 100, 200, 400, 500, 500}, pauses)
		pause, err := busy.failed(now, decision{next: writeAgain, busy: true, err: first}, l)
		require.NoError(t, err)
		require.Equal(t, 3200*time.Millisecond, pause, "it is to be sent files")
	})
	t.Run("final", func(t *testing.T) {
		var b retryBudget
		_, err := b.failed(now, decision{next: giveUp, err: first}, l)
		require.Equal(t, first, err)
	})
	require.Equal(t, 5*time.Second, exponentialBackoff(1000))
}
