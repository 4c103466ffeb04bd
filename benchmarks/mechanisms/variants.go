package mechanisms

import (
	"context"
	"fmt"

	"fastddl/benchmarks/result"
)

// leaveOutVariable is flow.LeaveOutVariable, which only builds with the tag benchflow have.
const leaveOutVariable = "FASTDDL_FLOW_LEAVE_OUT"

// mechanism is one of flow control's, by the name that the server knows. Only is the place that has it; empty is any.
type mechanism struct{ name, title, only string }

// mechanisms are those of flow/leaveout_benchflow.go.
var mechanisms = []mechanism{
	{"yield", "workers yield to statements that are executed", "worker"},
	{"priority", "threads of low priority (nice 1 instead of 10)", ""},
	{"reserve", "processors reserved in Go's scheduler", ""},
	{"compactions", "compactions of low priority", ""},
}

// workerVariable is the global variable of where builds run.
const workerVariable = "fastddl_ddl_worker"

// place is where builds run: the first part of the names of its variants, its title in the report, and the value of workerVariable.
type place struct{ name, title, value string }

// places are all. A server without the variable runs builds inside.
var places = []place{{"inside", "inside the server", "OFF"}, {"worker", "in the worker", "ON"}}

// variant is one of the result's, with what the server is told.
type variant struct {
	result.FlowVariant
	worker string // the value of workerVariable; empty leaves it
}

// variants are all of them: without builds, and for each place all mechanisms twice, then each left out.
func variants() []*variant {
	list := []*variant{{FlowVariant: result.FlowVariant{Name: "quiet", Kind: result.FlowQuiet}}}
	for _, p := range places {
		add := func(v result.FlowVariant, name string) {
			v.Name, v.Builds = p.name+" "+name, p.title
			list = append(list, &variant{FlowVariant: v, worker: p.value})
		}
		add(result.FlowVariant{Kind: result.FlowAll}, "all")
		add(result.FlowVariant{Kind: result.FlowAgain}, "again")
		for _, m := range mechanisms {
			if m.only != "" && m.only != p.name {
				continue
			}
			add(result.FlowVariant{Kind: result.FlowWithout, Without: m.name, Title: m.title}, m.name)
		}
	}
	return list
}

// environment is what the server is started with.
func (v *variant) environment() []string { return []string{leaveOutVariable + "=" + v.Without} }

// place has the running server run builds where the variant wants them. It returns why that is not possible.
func (v *variant) place(ctx context.Context, s Server) (impossible string, err error) {
	if v.worker == "" {
		return "", nil
	}
	known, err := s.SetGlobal(ctx, workerVariable, v.worker)
	if err != nil || known || v.worker == places[0].value {
		return "", err
	}
	return fmt.Sprintf("the server does not know %s", workerVariable), nil
}
