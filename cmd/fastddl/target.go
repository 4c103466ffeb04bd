package main

import (
	"github.com/spf13/pflag"

	"fastddl/bench"
)

// passwordVariable names root's password in a cluster, as for MySQL's own clients.
const passwordVariable = "MYSQL_PWD"

// bindTarget defines the flags that say what a benchmark or a demonstration runs on.
func bindTarget(f *pflag.FlagSet, t *bench.Target) {
	f.StringVar(&t.Store, "store", t.Store, "storage `DRIVER`: pebble, a store of its own, or tikv, an existing cluster (root's password there: $"+passwordVariable+")")
	f.StringVar(&t.Path, "path", "", "the PD `SERVERS` of a cluster")
	f.StringVar(&t.ConfigFile, "config", "", "configuration `FILE` of a cluster's servers, of which the section [tidb] is taken: TLS, the keyspace")
	f.StringVar(&t.AdvertiseAddress, "advertise-address", "", "`ADDRESS` of this machine for the other servers of a cluster")
}
