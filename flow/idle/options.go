package idle

import (
	"encoding/json"
	"fmt"
	"os"
)

// Class says how far below others a process begins.
type Class string

const (
	// ClassIdle is the default: scheduling class idle.
	ClassIdle Class = "idle"
	// ClassNice is the usual class with nice value 10, a tenth of the weight of others. It is for a process that starves in
	// class idle where the kernel does not let that class be left ([Progress].Starved).
	ClassNice Class = "nice"
)

// Options say how a process is started.
type Options struct {
	// Class is ClassIdle if empty.
	Class Class
	// Group asks for a control group of its own. Without one, or where none can be made, the process stays in the
	// server's.
	Group bool
}

// requestVariable holds a request, from Start to Enter and from Enter to the program executed anew.
const requestVariable = "FASTDDL_IDLE_PROCESS"

// request is what a process is asked to do with itself.
type request struct {
	Class Class `json:"class,omitempty"`
	// Group is the folder of the control group that it joins.
	Group string `json:"group,omitempty"`
	// Entered says that this has been done, and the program was executed anew.
	Entered bool `json:"entered,omitempty"`
	// Notes say what is missing, and why.
	Notes []string `json:"notes,omitempty"`
}

// receive takes the request out of the environment. A process that was started by hand has none, and begins as by default.
func receive() (request, error) {
	var r request
	text, found := os.LookupEnv(requestVariable)
	if found {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return r, fmt.Errorf("read %s: %w", requestVariable, err)
		}
		if err := os.Unsetenv(requestVariable); err != nil {
			return r, fmt.Errorf("remove %s: %w", requestVariable, err)
		}
	}
	switch r.Class {
	case "":
		r.Class = ClassIdle
	case ClassIdle, ClassNice:
	default:
		return r, fmt.Errorf("read %s: unknown class %q", requestVariable, r.Class)
	}
	return r, nil
}

// variable returns the request as a variable of an environment.
func (r request) variable() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", requestVariable, err)
	}
	return requestVariable + "=" + string(text), nil
}
