package deploy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// prometheus is one run of the real program.
type prometheus struct {
	t   *testing.T
	url string
	log *servertest.Buffer
}

// listening is the address in the log of Prometheus, which takes a free port.
var listening = regexp.MustCompile(`msg="Listening on" address=(\S+:[1-9][0-9]*)`)

// startPrometheus starts a Prometheus that scrapes target each second, with our rules, and waits until it listens.
// It is killed at the end of the test.
func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	program, dir := installed(t, "prometheus"), t.TempDir()
	rules, err := filepath.Abs(deployed("prometheus", "fastddl.rules.yml"))
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	writeFile(t, config, fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs: [{job_name: fastddl, static_configs: [{targets: [%q]}]}]
`, rules, target))
	p := &prometheus{t: t, log: new(servertest.Buffer)}
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	address, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			_, _ = fmt.Fprintln(p.log, lines.Text()) // a buffer fails never
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case address <- m[1]:
				default:
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		<-ended
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("log of Prometheus:\n%s", p.log)
		}
	})
	select {
	case a := <-address:
		p.url = "http://" + a
	case <-ended:
		require.FailNow(t, "Prometheus has ended")
	case <-time.After(servertest.StartTimeout):
		require.FailNow(t, "Prometheus does not listen")
	}
	return p
}

// get decodes the data of an answer of the HTTP API. A query that is wrong ends the test.
func (p *prometheus) get(path string, data any) {
	p.t.Helper()
	resp, err := http.Get(p.url + path)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable { // it starts
		return
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	require.NoError(p.t, json.NewDecoder(resp.Body).Decode(&answer))
	require.Equal(p.t, "success", answer.Status, "%s: %s", path, answer.Error)
	require.NoError(p.t, json.Unmarshal(answer.Data, data))
}

// series is how many series answer an expression now.
func (p *prometheus) series(expr string) int {
	p.t.Helper()
	var data struct{ Result []json.RawMessage }
	p.get("/api/v1/query?query="+url.QueryEscape(expr), &data)
	return len(data.Result)
}

// requireRulesEvaluated: all rules of the file are loaded, and none has failed.
func (p *prometheus) requireRulesEvaluated(alerts []string) {
	p.t.Helper()
	type rule struct{ Name, Health, LastError string }
	require.Eventually(p.t, func() bool {
		var data struct {
			Groups []struct{ Rules []rule }
		}
		p.get("/api/v1/rules", &data)
		var names []string
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				require.Empty(p.t, r.LastError, r.Name)
				if r.Health == "ok" {
					names = append(names, r.Name)
				}
			}
		}
		slices.Sort(names) // groups come in the order of their names
		return slices.Equal(names, slices.Sorted(slices.Values(alerts)))
	}, servertest.StartTimeout, 200*time.Millisecond)
}
