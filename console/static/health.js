// The server and its store, its load, the nodes of the cluster, and the settings of builds.

import { html } from './view.js';
import { usePolled } from './hooks.js';
import { Facts, Problem, Table } from './ui.js';
import { Chart } from './chart.js';
import { readMetrics } from './metrics.js';
import { Settings } from './settings.js';
import * as format from './format.js';

const nodes = [
  { name: 'Node', show: (n) => format.text(n.instance) },
  { name: 'Status port', show: (n) => format.text(n.status_address) },
  { name: 'Version', show: (n) => format.text(n.version) },
];
// A server without a cluster gives the time of the request for that of its start; Store has the right one.
const started = { name: 'Running since', kind: 'num', show: (n) => format.time(n.start_time) };

function Readiness() {
  const [ready, error] = usePolled('health/ready', 3);
  if (error && error.status) return html`<div class="verdict bad" role="status"><strong>Not ready</strong> ${error.message}</div>`;
  return html`<div class=${'verdict ' + (ready ? 'ok' : '')} role="status"><strong>${ready ? 'Ready' : 'Asking ...'}</strong> ${ready && 'Statements are accepted and can be executed.'}</div>`;
}

// Store is read from the metrics, which need no log-in. A server of a cluster has none of its store's.
function Store() {
  const [m, error] = usePolled('/metrics', 3, readMetrics);
  if (!m) return error ? html`<${Problem} error=${error} />` : html`<p class="loading">Loading ...</p>`;
  const has = (name) => m.has(name);
  const slowed = m.labelled('fastddl_ddl_governor_yielding').filter(([, v]) => v > 0).map(([labels]) => labels.reason);
  const free = m.value('fastddl_store_disk_free_bytes'), total = m.value('fastddl_store_disk_total_bytes');
  return html`<${Facts} facts=${[
    has('process_start_time_seconds') && ['Running since', format.time(m.value('process_start_time_seconds') * 1000)],
    has('fastddl_store_size_bytes') && ['Size of the store', format.bytes(m.value('fastddl_store_size_bytes'))],
    has('fastddl_store_disk_free_bytes') && ['Free on its disk', format.bytes(free) + ' of ' + format.bytes(total)],
    has('fastddl_store_write_stalled') && ['Writes', m.value('fastddl_store_write_stalled') > 0 ? 'stalled: the store has to catch up' : 'flow'],
    has('fastddl_store_commits_per_second') && ['Commits', format.number(m.value('fastddl_store_commits_per_second')) + ' a second, p99 ' + format.milliseconds(m.value('fastddl_store_commit_p99_seconds') * 1000)],
    has('fastddl_store_compaction_debt_bytes') && ['To be compacted', format.bytes(m.value('fastddl_store_compaction_debt_bytes'))],
    has('fastddl_store_l0_sublevels') && ['Sublevels of level 0', format.number(m.value('fastddl_store_l0_sublevels'))],
    has('fastddl_ddl_running_jobs') && ['Builds that run', format.number(m.value('fastddl_ddl_running_jobs'))],
    has('fastddl_ddl_governor_share') && ['Builds may use', format.percent(m.value('fastddl_ddl_governor_share') * 100) + (slowed.length > 0 ? ', slowed for ' + slowed.join(', ') : '')],
  ]} />`;
}

function Load() {
  const [points, error] = usePolled('load', 2);
  if (error && !error.passing) return html`<h2>Load</h2><${Problem} error=${error} />`;
  if (points && points.length === 0) return html`<h2>Load of this node</h2><p class="empty">Not shown to this account: it needs the privilege PROCESS.</p>`;
  const known = points || [];
  const at = known.map((p) => new Date(p.time) / 1000);
  return html`<h2>Load of this node</h2><div class="charts">
    <${Chart} title="Statements a second" at=${at} values=${known.map((p) => (p.seconds > 0 ? p.statements / p.seconds : 0))} show=${format.number} />
    <${Chart} title="99 of 100 take less than" at=${at} values=${known.map((p) => p.p99_ms)} show=${format.milliseconds} ink="--warn" />
    <${Chart} title="Rows a second, of builds" at=${at} values=${known.map((p) => p.rows_per_second)} show=${format.number} />
  </div>`;
}

export function Health() {
  const [found, error] = usePolled('nodes', 5);
  return html`<h1 tabindex="-1">Health</h1>
    <${Readiness} />
    <h2>Store</h2>
    <${Store} />
    <${Load} />
    <h2>Nodes</h2>
    <${Problem} error=${error && !error.passing && error} />
    <${Table} label="Nodes" columns=${found && found.length > 1 ? [...nodes, started] : nodes} rows=${found} empty="This account may not see the nodes: it needs the privilege PROCESS." />
    <h2>Settings of builds</h2>
    <${Settings} />`;
}
