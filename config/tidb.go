package config

import (
	"bytes"
	"fmt"
	"maps"
	"strings"

	"github.com/BurntSushi/toml"
	tidb "github.com/pingcap/tidb/pkg/config"
)

// ownKeys are the settings of TiDB's file that are set by one of ours, which
// the error for them names.
var ownKeys = map[string]string{
	"host": "host", "port": "port", "socket": "socket", "advertise-address": "advertise-address",
	"store": "store", "path": "path", "temp-dir": "temp-dir", "tmp-storage-path": "temp-dir",
	"max-server-connections": "max-connections", "instance.max_connections": "max-connections",
	"log.level": "log.level", "log.format": "log.format", "log.slow-query-file": "log.slow-query-file",
	"log.slow-threshold": "log.slow-threshold", "instance.tidb_slow_log_threshold": "log.slow-threshold",
	"log.file.filename": "log.file.filename", "log.file.max-size": "log.file.max-size",
	"log.file.max-days": "log.file.max-days", "log.file.max-backups": "log.file.max-backups",
	"status.report-status": "status.report-status", "status.status-host": "status.status-host",
	"status.status-port": "status.status-port",
	"security.auto-tls":  "security.auto-tls",
	"security.ssl-ca":    "security.ssl-ca", "security.ssl-cert": "security.ssl-cert", "security.ssl-key": "security.ssl-key",
	"performance.server-memory-quota": "memory-limit", "performance.max-memory": "memory-limit",
}

// moved are the places that settings of [instance] had in earlier releases; TiDB still
// takes them from there.
var moved = []struct{ section, name, instance string }{
	{"", "check-mb4-value-in-utf8", "tidb_check_mb4_value_in_utf8"},
	{"", "enable-collect-execution-info", "tidb_enable_collect_execution_info"},
	{"", "run-ddl", "tidb_enable_ddl"},
	{"log", "enable-slow-log", "tidb_enable_slow_log"},
	{"log", "record-plan-in-slow-log", "tidb_record_plan_in_slow_log"},
	{"performance", "force-priority", "tidb_force_priority"},
	{"plugin", "load", "plugin_load"},
	{"plugin", "dir", "plugin_dir"},
}

// largestEntry is the greatest txn-entry-size-limit that TiDB starts with.
const largestEntry = 120 << 20

// ApplyTiDB puts the settings of the section [tidb] over those in dst. The
// error lists all that TiDB does not know and all that are set elsewhere.
func (c *Config) ApplyTiDB(dst *tidb.Config) error {
	var p problems
	c.applyTiDB(dst, &p)
	return p.err()
}

func (c *Config) validateTiDB(p *problems) {
	dst := tidb.NewConfig()
	before := len(*p)
	if c.applyTiDB(dst, p); len(*p) > before {
		return
	}
	if err := dst.Valid(); err != nil {
		p.add("tidb: %v", err)
	}
}

func (c *Config) applyTiDB(dst *tidb.Config, p *problems) {
	if len(c.TiDB) == 0 {
		return
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(inPlace(c.TiDB)); err != nil {
		p.add("tidb: %v", err)
		return
	}
	dst.Labels = maps.Clone(dst.Labels) // TiDB's defaults share it
	md, err := toml.Decode(text.String(), dst)
	if err != nil {
		p.add("tidb: %s", strings.TrimPrefix(err.Error(), "toml: "))
		return
	}
	if unknown := unknownKeys(md); len(unknown) > 0 {
		p.add("tidb: unknown settings: %s", strings.Join(unknown, ", "))
	}
	if dst.TokenLimit == 0 { // as TiDB takes it; otherwise no statement would ever run
		dst.TokenLimit = tidb.NewConfig().TokenLimit
	}
	if dst.Performance.TxnEntrySizeLimit > largestEntry {
		p.add("tidb.performance.txn-entry-size-limit %d is more than %d", dst.Performance.TxnEntrySizeLimit, largestEntry)
	}
	refuseAbsent(dst, p)
	for _, key := range md.Keys() {
		if own, ok := ownKeys[key.String()]; ok {
			p.add("%s", fmt.Sprintf("tidb.%s is set by %s", key, own))
		}
	}
}

// refuseAbsent refuses settings for which nothing is built in, so that no operator relies on them.
func refuseAbsent(t *tidb.Config, p *problems) {
	for _, absent := range []struct {
		set  bool
		name string
		why  string
	}{
		{t.Status.MetricsAddr != "", "status.metrics-addr", "metrics are not pushed; have Prometheus read them from /metrics"},
		{t.OpenTracing.Enable, "opentracing.enable", "traces are not sent; use the statement TRACE"},
		{t.Cors != "", "cors", "the status server allows no other origins"},
		{t.Log.Timeout != 0, "log.timeout", "a log that hangs does not end the server"},
		{t.Log.File.Compression != "", "log.file.compression", "log files are not compressed"},
		{t.TiDBEdition != tidb.NewConfig().TiDBEdition, "tidb-edition", "the edition is part of version-comment"},
		{t.DisaggregatedTiFlash, "disaggregated-tiflash", "TiFlash nodes are not looked up elsewhere than in PD"},
	} {
		if absent.set {
			p.add("tidb.%s: %s", absent.name, absent.why)
		}
	}
}

// inPlace returns the settings with the moved ones where they are now. A setting that is
// already there takes precedence.
func inPlace(settings map[string]any) map[string]any {
	instance, _ := settings["instance"].(map[string]any)
	instance = maps.Clone(instance)
	if instance == nil {
		instance = make(map[string]any)
	}
	for _, m := range moved {
		from := settings
		if m.section != "" {
			from, _ = settings[m.section].(map[string]any)
		}
		value, set := from[m.name]
		if _, there := instance[m.instance]; set && !there {
			instance[m.instance] = value
		}
	}
	if len(instance) == 0 {
		return settings
	}
	settings = maps.Clone(settings)
	settings["instance"] = instance
	return settings
}
