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

// Enter fails: there is no class idle.
func Enter() (Means, error) { return Means{}, errUnsupported }

// MeansOf fails as Enter does.
func MeansOf(int) (Means, error) { return Means{}, errUnsupported }

// separate fails, so that Start does.
func separate(*exec.Cmd) error { return errUnsupported }

// Memory fails as Enter does.
func (p *Process) Memory() (now, peak int64, err error) { return 0, 0, errUnsupported }

// Keeper holds nothing.
type Keeper struct{}

// NewKeeper returns a keeper whose Run fails.
func NewKeeper(int, func(Progress)) *Keeper { return &Keeper{} }

// Run fails as Enter does.
func (k *Keeper) Run(context.Context) error { return errUnsupported }

// cpuTime fails as Enter does.
func cpuTime(int) (time.Duration, error) { return 0, errUnsupported }
