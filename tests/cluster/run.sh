#!/usr/bin/env bash
# Runs the tests of this module, and the benchmark of ADD INDEX, over a TiKV cluster that is
# in use: see usage below.
set -euo pipefail

usage() {
	cat <<'USAGE'
usage: tests/cluster/run.sh PD_ADDR[,PD_ADDR...][?keyspaceName=NAME] [FLAGS OF go test]

  PD_ADDR           host:port of a PD of the cluster
  NAME              a keyspace to work in, of which alone there are SQL servers
  FASTDDL_BIN       the fastddl to test (default: it is built)
  FASTDDL_BENCH_ROWS  rows of the benchmark's table (default 200000; 0: no benchmark)
  FASTDDL_TIME      how long the randomised test takes, such as 15m (default 14s)
  FASTDDL_CLUSTER_DISTURBED  1 if stores or PD are killed, moved or filled up meanwhile
  FASTDDL_EMPTY_CLUSTER  PD of another cluster, which has nothing in it: for the tests that
                    write keys past the tables (default: over a stand-in, if at all)
  MYSQL_PWD         root's password in the cluster (default: none)
  TMPDIR            where the servers sort; a tenth of its disk should be free

Examples:
  tests/cluster/run.sh pd1:2379,pd2:2379,pd3:2379
  FASTDDL_BENCH_ROWS=0 tests/cluster/run.sh 127.0.0.1:2379 -run 'TestTwoNodes|TestBuilder'
USAGE
}

case "${1-}" in
'' | -*)
	usage >&2
	exit 2
	;;
esac
pd=$1
shift
rows=${FASTDDL_BENCH_ROWS-200000}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export GOFLAGS=-buildvcs=false

# The first PD that answers will do; the servers find the others.
version=
IFS=, read -ra servers <<<"${pd%%\?*}"
for server in "${servers[@]}"; do
	if version=$(curl --silent --show-error --fail --max-time 10 "http://$server/pd/api/v1/version"); then
		break
	fi
done
if [ -z "$version" ]; then
	echo "run.sh: no PD answers at $pd" >&2
	exit 1
fi

if [ -z "${FASTDDL_BIN-}" ]; then
	make --silent --directory "$root" build
	FASTDDL_BIN=$root/bin/fastddl
fi
FASTDDL_BIN=$(realpath -- "$FASTDDL_BIN")
export FASTDDL_BIN FASTDDL_CLUSTER=$pd

# The address of this machine by which the cluster's servers reach it.
first=${servers[0]%:*}
address=$(ip -oneline route get "$(getent ahostsv4 "$first" | awk 'NR == 1 { print $1 }')" 2>/dev/null | sed -n 's/.* src \([^ ]*\).*/\1/p') || address=

cat <<PLAN
cluster   $pd: PD says $version
binary    $FASTDDL_BIN: $("$FASTDDL_BIN" version)
tests     one at a time, in databases fastddl_test_*, on nodes that are started here
benchmark $rows rows
The cluster's other servers see these nodes come and go: each change of a schema waits for
them, and for those that are killed until they are back or, for 90 seconds, registered.
PLAN

failed=()
# One at a time: tests kill nodes, which the DDL of all others would wait for.
(cd "$here" && go tool -modfile="$root/go.tool.mod" gotestsum --format standard-verbose -- -count=1 -timeout 2h -parallel 1 "$@" .) ||
	failed+=(tests)

benchmark=skipped
if [ "$rows" -gt 0 ]; then
	if "$FASTDDL_BIN" bench addindex --help | grep -q -e '--store '; then
		benchmark=passed
		"$FASTDDL_BIN" bench addindex --store tikv --path "$pd" ${address:+--advertise-address "$address"} --rows "$rows" || {
			benchmark=failed
			failed+=(benchmark)
		}
	else
		benchmark="skipped: this fastddl has no bench addindex --store"
	fi
fi

echo
echo "benchmark $benchmark"
if [ ${#failed[@]} -gt 0 ]; then
	echo "FAILED: ${failed[*]}"
	exit 1
fi
echo "passed"
