// What is kept of a job: stages, waits, costs, settings, commands, rows with errors, and parts on nodes.

import { html } from './view.js';
import { usePolled } from './hooks.js';
import { Badge, Facts, Problem, Table } from './ui.js';
import * as format from './format.js';

const stages = [
  { name: 'Stage', show: (s) => format.text(s.stage) },
  { name: 'Time', kind: 'num', show: (s) => format.duration(s.seconds) },
  { name: 'Work of its workers', kind: 'num', show: (s) => format.duration(s.work_seconds) },
  { name: 'Rows', kind: 'num', show: (s) => format.number(s.rows) },
  { name: 'Bytes', kind: 'num', show: (s) => format.bytes(s.bytes) },
];

const waits = [
  { name: 'Waited for', kind: 'long', show: (w) => format.text(w.reason) + (w.user ? ' of ' + w.user : '') + (w.conn_id ? ', connection ' + w.conn_id : '') + (w.ended ? ', ended' : '') },
  { name: 'Time', kind: 'num', show: (w) => format.duration(w.seconds) },
];

const commands = [
  { name: 'Time', kind: 'num', show: (c) => format.time(c.time) },
  { name: 'User', show: (c) => format.text(c.user_name) + '@' + format.text(c.host) },
  { name: 'Program', show: (c) => format.text(c.program) },
  { name: 'Statement', kind: 'long', show: (c) => html`<code>${format.text(c.statement)}</code>` },
  { name: 'Outcome', kind: 'long', show: (c) => format.text(c.outcome) },
];

const errors = [
  { name: 'Index', show: (e) => format.text(e.index_name) },
  { name: 'Error', kind: 'num', show: (e) => format.text(e.error_code) },
  { name: 'Message', kind: 'long', show: (e) => format.text(e.message) },
  { name: 'Row', kind: 'long', show: (e) => format.text(e.row_handle) },
  { name: 'Rows', kind: 'num', show: (e) => format.number(e.row_count) },
];

const parts = [
  { name: 'Part', kind: 'num', show: (p) => format.text(p.part) },
  { name: 'Node', show: (p) => format.text(p.holder) },
  { name: 'State', show: (p) => html`<${Badge} state=${p.state} />` },
  { name: 'Stage', show: (p) => format.text(p.stage) },
  { name: 'Done', kind: 'num', show: (p) => format.percent(p.percent) },
  { name: 'Rows/s', kind: 'num', show: (p) => format.number(p.rows_per_second) },
  { name: 'Wait reason', kind: 'long', show: (p) => format.text(p.wait_reason || p.error) },
];

// Listed is a table of rows that the API has below a job. Without rows it is left out.
function Listed({ job, what, title, columns }) {
  const [rows, error] = usePolled('jobs/' + job.job_id + '/' + what, job.end_time ? 0 : 3);
  if (error && error.status === 403) return html`<h2>${title}</h2><p class="empty">Not shown to this account: ${error.message}</p>`;
  if (error && !error.passing) return html`<h2>${title}</h2><${Problem} error=${error} />`;
  if (!rows || rows.length === 0) return null;
  return html`<h2>${title}</h2><${Table} label=${title} columns=${columns} rows=${rows} />`;
}

export function Details({ job }) {
  const held = Object.entries(job.held_seconds || {});
  const settings = Object.entries(job.settings || {});
  return html`<${Listed} job=${job} what="parts" title="Parts on nodes" columns=${parts} />
    <${Listed} job=${job} what="errors" title="Rows with errors" columns=${errors} />
    ${(job.stages || []).length > 0 && html`<h2>Stages</h2><${Table} label="Stages" columns=${stages} rows=${job.stages} />`}
    ${(job.waited_for || []).length > 0 && html`<h2>Waits</h2><${Table} label="Waits" columns=${waits} rows=${job.waited_for} />`}
    <${Listed} job=${job} what="commands" title="Commands" columns=${commands} />
    <h2>Costs and settings</h2>
    <${Facts} facts=${[
      ['Read', format.bytes(job.read_bytes)],
      ['Sorted', format.bytes(job.sorted_bytes)],
      ['Written', format.bytes(job.written_bytes)],
      ['Index', format.bytes(job.index_bytes)],
      job.store_requests !== null && ['Requests of the store', format.number(job.store_requests)],
      job.store_cpu_seconds !== null && ['Processor time of the store', format.duration(job.store_cpu_seconds)],
      held.length > 0 && ['Workers were held', held.map(([reason, seconds]) => reason + ' ' + format.duration(seconds)).join(', ')],
      ['Verified', format.text(job.verified || job.verify)],
      ['Repaired keys', format.number(job.repaired_keys)],
      ['Failed attempts', format.number(job.error_count) + (job.last_error ? ': ' + job.last_error : '')],
      ['Publish', format.text(job.publish || 'auto')],
      ['Window', job.job_window || 'always'],
      ['Own settings', settings.map(([name, value]) => name + ' = ' + format.text(value)).join(', ') || 'none'],
      ['Asked by', format.text(job.user_name) + (job.program_name ? ', ' + job.program_name : '')],
      ['Created', format.time(job.create_time)],
      ['Started', format.time(job.start_time)],
      ['Ended', format.time(job.end_time)],
    ]} />`;
}
