package flow

import (
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReserveAddsProcessorsAndGivesThemBack(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	require.Equal(t, cores, Cores())
	one := Reserve(2)
	two := Reserve(3)
	require.Equal(t, cores+5, runtime.GOMAXPROCS(0))
	require.Equal(t, cores, Cores())
	one()
	one()
	require.Equal(t, cores+3, runtime.GOMAXPROCS(0))
	two()
	require.Equal(t, cores, runtime.GOMAXPROCS(0))
}

// TestReservedSince: a reservation is seen while it lasts, and once when it is over.
func TestReservedSince(t *testing.T) {
	start, _ := ReservedSince(0)
	_, reserved := ReservedSince(start)
	require.False(t, reserved)
	release := Reserve(1)
	for range 2 {
		start, reserved = ReservedSince(start)
		require.True(t, reserved)
	}
	release()
	start, reserved = ReservedSince(start)
	require.True(t, reserved)
	_, reserved = ReservedSince(start)
	require.False(t, reserved)
}

// TestLowPriorityEndsWithTheGoroutine: no other goroutine may ever run on a
// thread whose priority was lowered.
func TestLowPriorityEndsWithTheGoroutine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have priorities on Linux only")
	}
	priority := func() int {
		// The system call gives 20 minus the nice value.
		p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		require.NoError(t, err)
		return p
	}
	usual := priority()
	if usual != 20 {
		t.Skip("this process has another priority itself")
	}
	for range 50 {
		lowered := make(chan int)
		go func() {
			BackgroundThread()
			lowered <- priority()
		}()
		require.Less(t, <-lowered, usual)
		same := make(chan int)
		go func() { same <- priority() }()
		require.Equal(t, usual, <-same)
	}
}
