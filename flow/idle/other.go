//go:build !linux

package idle

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

var errUnsupported = fmt.Errorf("processes of class idle on %s: %w", runtime.GOOS, errors.ErrUnsupported)

// separate fails, so that Start does: there is no class idle.
func separate(*exec.Cmd) error { return errUnsupported }

func (t tree) lower(int, string, Class) []string { return nil }

func (t tree) means(int) (Means, error) { return Means{}, errUnsupported }

// Keeper holds nothing.
type Keeper struct{}

// NewKeeper returns a keeper whose Run fails.
func NewKeeper(int, func(Progress)) *Keeper { return &Keeper{} }

// Run fails as Start does.
func (k *Keeper) Run(context.Context) error { return errUnsupported }

// cpuTime fails as Start does.
func cpuTime(int) (time.Duration, error) { return 0, errUnsupported }
