package conflict

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// testRow is a row with the key "r"+id, unique keys "1"+a and "2"+b, and an entry that is not unique.
type testRow struct {
	id, a, b, text byte
	rejected       bool
}

func (r testRow) encoded(number int) Row {
	return Row{Rejected: r.rejected, Pairs: []Pair{
		{Key: []byte{'r', r.id}, Value: []byte{r.a, r.b, r.text}},
		{Key: []byte{'1', r.a}, Value: []byte{r.id}},
		{Key: []byte{'2', r.b}, Value: []byte{r.id}},
		{Key: binary.BigEndian.AppendUint32([]byte{'x'}, uint32(number)), Value: []byte{0}},
	}}
}

func options(t testing.TB, policy Policy) (Options, *int64) {
	occupied := new(int64)
	return Options{
		Dir: t.TempDir(), Policy: policy, MaxWarnings: 1 << 16,
		Unique: func(key []byte) (int64, bool) {
			switch key[0] {
			case 'r':
				return 0, true
			case 'x':
				return 3, false
			}
			return int64(key[0] - '0'), true
		},
		Exists: func(index int64, key, _ []byte) error { return fmt.Errorf("%d: %d", index, key[1]) },
		Occupy: func(n int64) error { *occupied += n; return nil },
	}, occupied
}

// want loads rows one by one, as the documentation of LOAD DATA says.
func want(rows []testRow, policy Policy) (stay []int, r Result) {
	live := make(map[int]testRow)
	for n, row := range rows {
		find := func(index int, has func(o testRow) bool) (int, bool) {
			for at, o := range live {
				if has(o) {
					return at, true
				}
			}
			return 0, false
		}
		checks := []func(o testRow) bool{
			func(o testRow) bool { return o.id == row.id }, func(o testRow) bool { return o.a == row.a }, func(o testRow) bool { return o.b == row.b },
		}
		values := []byte{row.id, row.a, row.b}
		added := true
		for index, has := range checks {
			at, found := find(index, has)
			if !found {
				continue
			}
			if policy == First {
				r.Warnings = append(r.Warnings, fmt.Errorf("%d: %d", index, values[index]))
				added = false
				break
			}
			same := live[at]
			same.rejected = row.rejected
			if same == row {
				added = false
				if index == 0 {
					r.Copied++
				} else {
					r.Affected++
				}
				break
			}
			delete(live, at)
			if index == 0 {
				r.Deleted++
			} else {
				r.Affected++
			}
		}
		if added {
			r.Copied++
			if !row.rejected {
				r.Affected++
				live[n] = row
			}
		}
	}
	for n := range rows {
		if _, ok := live[n]; ok {
			stay = append(stay, n)
		}
	}
	return stay, r
}

// Rows with equal keys are decided about as if they were inserted one by one, however their hashes collide.
func TestRandomConflicts(t *testing.T) {
	r := randtest.Rand(t)
	for range 60 {
		policy := Policy(r.IntN(2))
		values := 2 + r.IntN(200)
		rows := make([]testRow, r.IntN(200))
		for i := range rows {
			rows[i] = testRow{id: byte(r.IntN(values)), a: byte(r.IntN(values)), b: byte(r.IntN(values)), text: byte(r.IntN(2)), rejected: r.IntN(8) == 0}
		}
		check(t, r, rows, policy)
	}
}

func check(t *testing.T, r *rand.Rand, rows []testRow, policy Policy) {
	opts, occupied := options(t, policy)
	opts.oneHash, opts.hashesInMemory = r.IntN(3) == 0, 1+r.IntN(10)
	s, err := New(opts)
	require.NoError(t, err)
	for n, row := range rows {
		require.NoError(t, s.Add(row.encoded(n)))
	}
	got, err := s.Decide(context.Background())
	require.NoError(t, err)
	stay, expected := want(rows, policy)
	require.Equal(t, expected, got, "%v", rows)
	for _, n := range stay {
		pairs, err := s.Next()
		require.NoError(t, err)
		require.Equal(t, rows[n].encoded(n).Pairs, pairs, "row %d of %v", n, rows)
	}
	_, err = s.Next()
	require.Equal(t, io.EOF, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.Zero(t, *occupied)
}

// Too many rows in conflict are refused, and so is a disk that has no room.
func TestLimits(t *testing.T) {
	opts, _ := options(t, First)
	opts.MaxState = 1000
	s, err := New(opts)
	require.NoError(t, err)
	for n := range 200 {
		require.NoError(t, s.Add(testRow{id: byte(n / 2), a: byte(n), b: byte(n)}.encoded(n)))
	}
	_, err = s.Decide(context.Background())
	require.ErrorContains(t, err, "not supported")
	require.NoError(t, s.Close())

	opts, _ = options(t, First)
	full := errors.New("full")
	opts.Occupy = func(n int64) error {
		if n > 0 {
			return full
		}
		return nil
	}
	s, err = New(opts)
	require.NoError(t, err)
	require.ErrorIs(t, s.Add(testRow{}.encoded(0)), full)
	require.NoError(t, s.Close())
}

// A file that was damaged is an error.
func TestDamagedFile(t *testing.T) {
	opts, _ := options(t, Last)
	s, err := New(opts)
	require.NoError(t, err)
	for n := range 10 {
		require.NoError(t, s.Add(testRow{id: byte(n), a: byte(n), b: byte(n)}.encoded(n)))
	}
	_, err = s.Decide(context.Background())
	require.NoError(t, err)
	_, err = s.file.WriteAt([]byte{99}, 30)
	require.NoError(t, err)
	for err == nil {
		_, err = s.Next()
	}
	require.ErrorIs(t, err, errCorrupt)
	require.NoError(t, s.Close())
}
