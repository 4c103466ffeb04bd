package deploy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dashboard is what the tests look at of Grafana's model.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct{ Name string }
	}
	Annotations struct {
		List []struct{ Expr string }
	}
	Panels []panel
}

type panel struct {
	ID                 int
	Type, Title        string
	Description        string
	GridPos            struct{ X, Y, W, H int }
	Targets            []target
	Datasource         *datasource
	Collapsed          bool
	RepeatedByVariable string `json:"repeat"`
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                datasource
}

type datasource struct{ Type, UID string }

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(readFile(t, deployed("grafana", "fastddl.json"))), &d))
	return d
}

// asked is an expression as Grafana sends it for all nodes.
func asked(expr string) string {
	return strings.NewReplacer("$__rate_interval", "30s", "$instance", ".*", "$job", "fastddl").Replace(expr)
}

// TestDashboardIsWellFormed: panels have a text and the data source that the user chooses, and do not overlap.
func TestDashboardIsWellFormed(t *testing.T) {
	d := readDashboard(t)
	require.Equal(t, "fastddl", d.UID)
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	require.Equal(t, []string{"datasource", "job", "instance"}, variables)
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels have the number %d", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s lies on it", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		require.Equal(t, &datasource{"prometheus", "${datasource}"}, p.Datasource, p.Title)
		for _, e := range p.Targets {
			require.Equal(t, *p.Datasource, e.Datasource, p.Title)
			require.NotEmpty(t, e.LegendFormat, p.Title)
			require.Contains(t, e.Expr, `job="$job",instance=~"$instance"`, p.Title)
			require.NotContains(t, asked(e.Expr), "$", p.Title)
		}
	}
}
