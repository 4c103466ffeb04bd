package idle

import (
	"math/bits"
	"path/filepath"
	"strconv"
)

// knob sets the share of a process in the processors. Level 0 is the lowest.
type knob interface {
	set(level int) error
	// level returns the level in force, or the one next to it.
	level() (int, error)
	name() string
}

// groupKnob sets the weight of a control group.
type groupKnob struct {
	dir     string
	version int
}

// weights of level 1: 16 of the 1024 that other groups and each thread have in version 1, 2 of 100 in version 2.
// Each level doubles it.
const sharesOfLevel1, weightOfLevel1 = 16, 2

func (g groupKnob) set(level int) error {
	file, lowest, weight := filepath.Join(g.dir, "cpu.shares"), 2, sharesOfLevel1
	if g.version == 2 {
		file, lowest, weight = filepath.Join(g.dir, "cpu.weight"), 1, weightOfLevel1
	}
	idle := filepath.Join(g.dir, "cpu.idle") // Linux 5.15
	state, err := readText(idle)
	hasIdle := err == nil
	if level == 0 {
		if hasIdle && state == "1" {
			return nil
		}
		if err := writeFile(file, strconv.Itoa(lowest)); err != nil || !hasIdle {
			return err
		}
		return writeFile(idle, "1")
	}
	if hasIdle && state == "1" {
		// A group of class idle takes no weight.
		if err := writeFile(idle, "0"); err != nil {
			return err
		}
	}
	return writeFile(file, strconv.Itoa(weight<<(level-1)))
}

func (g groupKnob) name() string { return "weight of the control group" }

func (g groupKnob) level() (int, error) {
	if state, err := readText(filepath.Join(g.dir, "cpu.idle")); err == nil && state == "1" {
		return 0, nil
	}
	file, least := "cpu.shares", sharesOfLevel1
	if g.version == 2 {
		file, least = "cpu.weight", weightOfLevel1
	}
	text, err := readText(filepath.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	weight, err := strconv.Atoi(text)
	if err != nil {
		return 0, err
	}
	return min(maxLevel, bits.Len(uint(weight/least))), nil
}

// String returns the weight: idle or a number.
func (g groupKnob) String() string {
	if state, err := readText(filepath.Join(g.dir, "cpu.idle")); err == nil && state == "1" {
		return policyIdle
	}
	file := "cpu.shares"
	if g.version == 2 {
		file = "cpu.weight"
	}
	weight, err := readText(filepath.Join(g.dir, file))
	if err != nil {
		return "unknown"
	}
	return weight
}
