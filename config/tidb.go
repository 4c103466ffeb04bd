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
	"security.ssl-ca":    "security.ssl-ca", "security.ssl-cert": "security.ssl-cert", "security.ssl-key": "security.ssl-key",
	"performance.server-memory-quota": "memory-limit", "performance.max-memory": "memory-limit",
}

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
	if err := toml.NewEncoder(&text).Encode(c.TiDB); err != nil {
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
	for _, key := range md.Keys() {
		if own, ok := ownKeys[key.String()]; ok {
			p.add("%s", fmt.Sprintf("tidb.%s is set by %s", key, own))
		}
	}
}
