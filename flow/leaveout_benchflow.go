//go:build benchflow

package flow

import (
	"fmt"
	"os"
	"strings"
)

// LeaveOutVariable is the environment variable with the names of the mechanisms to be left out, separated by commas.
const LeaveOutVariable = "FASTDDL_FLOW_LEAVE_OUT"

// The mechanisms are those of leaveout.go.
var (
	leaveOutYield       bool
	leaveOutPriority    bool
	leaveOutReserve     bool
	LeaveOutCompactions bool
)

// mechanisms has the switch of each mechanism by its name.
var mechanisms = map[string]*bool{
	"yield":       &leaveOutYield,
	"priority":    &leaveOutPriority,
	"reserve":     &leaveOutReserve,
	"compactions": &LeaveOutCompactions,
}

func init() {
	if err := leaveOut(os.Getenv(LeaveOutVariable)); err != nil {
		panic(err) // the benchmark would measure something else
	}
}

// leaveOut leaves out the named mechanisms and no others.
func leaveOut(names string) error {
	for _, out := range mechanisms {
		*out = false
	}
	for name := range strings.SplitSeq(names, ",") {
		if name == "" {
			continue
		}
		out, ok := mechanisms[name]
		if !ok {
			return fmt.Errorf("%s: flow control has no mechanism %q", LeaveOutVariable, name)
		}
		*out = true
	}
	return nil
}
