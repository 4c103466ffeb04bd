package deploy

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	kjson "sigs.k8s.io/json"

	"fastddl/config"
)

// manifests are the objects of deploy/kubernetes/fastddl.yaml, decoded into Kubernetes' own types.
type manifests struct {
	config   corev1.ConfigMap
	services map[string]corev1.Service
	budget   policyv1.PodDisruptionBudget
	set      appsv1.StatefulSet
}

// readManifests fails for a field that Kubernetes does not know.
func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	m.services = make(map[string]corev1.Service)
	documents := yaml.NewDecoder(strings.NewReader(readFile(t, deployed("kubernetes", "fastddl.yaml"))))
	for {
		var document map[string]any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return m
		}
		require.NoError(t, err)
		data, err := json.Marshal(document)
		require.NoError(t, err)
		decode := func(into any) {
			strict, err := kjson.UnmarshalStrict(data, into)
			require.NoError(t, err)
			require.Empty(t, strict)
		}
		switch kind := document["apiVersion"].(string) + "/" + document["kind"].(string); kind {
		case "v1/ConfigMap":
			decode(&m.config)
		case "v1/Service":
			var s corev1.Service
			decode(&s)
			m.services[s.Name] = s
		case "policy/v1/PodDisruptionBudget":
			decode(&m.budget)
		case "apps/v1/StatefulSet":
			decode(&m.set)
		default:
			require.Fail(t, "an object of another kind", kind)
		}
	}
}

// TestManifestsFitTogether: what the API server does not look at.
func TestManifestsFitTogether(t *testing.T) {
	m := readManifests(t)
	pod := m.set.Spec.Template
	require.Equal(t, pod.Labels, m.set.Spec.Selector.MatchLabels)
	require.Equal(t, pod.Labels, m.budget.Spec.Selector.MatchLabels)
	require.Len(t, pod.Spec.Containers, 1)
	c := pod.Spec.Containers[0]
	ports := make(map[string]int32)
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for name, s := range m.services {
		require.Equal(t, pod.Labels, s.Spec.Selector, name)
		for _, p := range s.Spec.Ports {
			require.Equal(t, p.Port, ports[p.TargetPort.StrVal], name)
		}
	}
	peers := m.services[m.set.Spec.ServiceName]
	require.Equal(t, corev1.ClusterIPNone, peers.Spec.ClusterIP, "each pod has a name")
	require.True(t, peers.Spec.PublishNotReadyAddresses, "other nodes reach one that drains")
	require.Contains(t, c.Args, "--advertise-address=$(POD_NAME)."+peers.Name+".$(POD_NAMESPACE).svc")
	require.Equal(t, "/health", c.ReadinessProbe.HTTPGet.Path)
	require.Contains(t, ports, c.ReadinessProbe.HTTPGet.Port.StrVal)
	require.Nil(t, c.LivenessProbe.HTTPGet, "a full disk does not become free by a restart")
	require.Contains(t, ports, c.LivenessProbe.TCPSocket.Port.StrVal)

	volumes := make(map[string]bool)
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil {
			require.Equal(t, m.config.Name, v.ConfigMap.Name)
		}
	}
	for _, v := range m.set.Spec.VolumeClaimTemplates {
		volumes[v.Name] = true
	}
	mounts := make(map[string]string)
	for _, v := range c.VolumeMounts {
		require.True(t, volumes[v.Name], v.Name)
		mounts[v.Name] = v.MountPath
	}
	require.Len(t, mounts, len(volumes))
	require.Contains(t, c.Args, "--config="+mounts["config"]+"/fastddl.toml")
	require.Equal(t, c.Resources.Requests[corev1.ResourceMemory], c.Resources.Limits[corev1.ResourceMemory], "memory that is promised twice ends the pod")

	cfg := validConfig(t, m.config.Data["fastddl.toml"])
	require.Equal(t, config.StoreTiKV, cfg.Store)
	require.EqualValues(t, ports["mysql"], cfg.Port)
	require.EqualValues(t, ports["status"], cfg.Status.StatusPort)
	require.Equal(t, mounts["data"]+"/tmp", cfg.TempDir, "the file system of the container is read-only")
	leastStop(t, cfg, time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second)
	wait := drainOf(t, cfg)
	require.GreaterOrEqual(t, wait, 2*time.Duration(c.ReadinessProbe.PeriodSeconds)*time.Second, "clients are sent elsewhere before they are refused")
}

// TestExampleConfigurationIsValid, and the unit leaves time for what it asks for.
func TestExampleConfigurationIsValid(t *testing.T) {
	cfg := validConfig(t, readFile(t, deployed("fastddl.toml")))
	require.Equal(t, config.StorePebble, cfg.Store)
	unit := readFile(t, deployed("systemd", "fastddl.service"))
	_, after, ok := strings.Cut(unit, "\nTimeoutStopSec=")
	require.True(t, ok)
	seconds, _, _ := strings.Cut(after, "\n")
	stop, err := time.ParseDuration(seconds + "s")
	require.NoError(t, err)
	leastStop(t, cfg, stop)
	require.Equal(t, "/var/lib/fastddl", cfg.Path)
	require.Contains(t, unit, "\nStateDirectory="+strings.TrimPrefix(cfg.Path, "/var/lib/"))
	require.Contains(t, unit, "\nLogsDirectory="+strings.TrimPrefix(filepath.Dir(cfg.Log.File.Filename), "/var/log/"))
	require.Contains(t, unit, "\nRuntimeDirectory="+strings.TrimPrefix(filepath.Dir(cfg.Socket), "/run/"))
}

func validConfig(t *testing.T, text string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fastddl.toml")
	writeFile(t, file, text)
	cfg, err := config.Load(file)
	require.NoError(t, err)
	cfg.EnsureDefaults()
	require.NoError(t, cfg.Validate())
	return cfg
}

// drainOf is how long a server lets clients in after a signal.
func drainOf(t *testing.T, cfg config.Config) time.Duration {
	t.Helper()
	seconds, ok := cfg.TiDB["graceful-wait-before-shutdown"].(int64)
	require.True(t, ok)
	return time.Duration(seconds) * time.Second
}

// leastStop: a server that is asked to stop is not killed before it has.
func leastStop(t *testing.T, cfg config.Config, given time.Duration) {
	t.Helper()
	const closing = 30 * time.Second
	require.GreaterOrEqual(t, given, drainOf(t, cfg)+time.Duration(cfg.ShutdownTimeout)+closing)
}
