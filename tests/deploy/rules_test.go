package deploy

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// alert is a rule of deploy/prometheus/fastddl.rules.yml.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alertsOf(t *testing.T) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, deployed("prometheus", "fastddl.rules.yml"))), &file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

func alertNames(all []alert) (names []string) {
	for _, a := range all {
		names = append(names, a.Alert)
	}
	return names
}

const rulesTest = "testdata/rules_test.yml"

// TestAlertsFire runs Prometheus' own unit tests of rules: each alert fires when it is to, and none in health.
func TestAlertsFire(t *testing.T) {
	promtool := installed(t, "promtool")
	runs(t, promtool, "check", "rules", deployed("prometheus", "fastddl.rules.yml"))
	runs(t, promtool, "check", "config", deployed("prometheus", "prometheus.yml"))
	runs(t, promtool, "test", "rules", filepath.FromSlash(rulesTest))
}

// TestAlertsSayWhatAndWhatToDo: each has a severity, two texts, and its unit test.
func TestAlertsSayWhatAndWhatToDo(t *testing.T) {
	tests := readFile(t, rulesTest)
	page := readFile(t, filepath.Join("..", "..", "docs", "deploy.md"))
	for _, a := range alertsOf(t) {
		require.Contains(t, []string{"critical", "warning", "info"}, a.Labels["severity"], a.Alert)
		require.NotEmpty(t, a.Annotations["summary"], a.Alert)
		require.NotEmpty(t, a.Annotations["description"], a.Alert)
		require.Contains(t, tests, `"`+a.Alert+`"`, "a unit test in which it fires")
		require.Contains(t, page, "`"+a.Alert+"`", "docs/deploy.md lists the alerts")
	}
}
