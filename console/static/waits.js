// Who waits for whom: the queue with its reasons, and transactions in the way of builds.

import { html } from './view.js';
import { request } from './api.js';
import { usePolled } from './hooks.js';
import { lackForEnd } from './rights.js';
import { AskButton, Badge, Problem, Table } from './ui.js';
import { byAge, jobLink } from './jobs.js';
import * as format from './format.js';

// Blockers are the transactions that builds wait for; of one job if that is given.
export function Blockers({ job }) {
  const [all, error, reload] = usePolled('blockers', 1.5);
  const rows = all && (job ? all.filter((b) => String(b.job_id) === String(job)) : all);
  const end = (b) => request('POST', 'blockers/' + encodeURIComponent(b.conn_id) + '/end').then(reload);
  const columns = [
    !job && { name: 'Job', kind: 'num', show: (b) => jobLink(b.job_id) },
    { name: 'Connection', kind: 'num', show: (b) => format.text(b.conn_id) },
    { name: 'User', show: (b) => format.text(b.user_name) },
    { name: 'Database', show: (b) => format.text(b.db_name) },
    { name: 'Open for', kind: 'num', show: (b) => format.duration(b.age_seconds) },
    { name: 'Idle for', kind: 'num', show: (b) => format.duration(b.idle_seconds) },
    { name: 'Keys written', kind: 'num', show: (b) => format.number(b.written_keys) },
    { name: 'What happens', kind: 'long', show: (b) => format.text(b.verdict) },
    { name: 'Statement', kind: 'long', show: (b) => html`<code>${format.text(b.statement)}</code>` },
    {
      name: 'End it', kind: 'act',
      show: (b) => html`<${AskButton} label="End" lack=${lackForEnd(b.user_name)} name=${'End connection ' + b.conn_id} danger title=${'End connection ' + b.conn_id} work=${() => end(b)}>
        <p>The session of ${format.text(b.user_name)} is ended by KILL, and its transaction, which has written ${format.number(b.written_keys)} keys, is rolled back.</p>
      </${AskButton}>`,
    },
  ].filter(Boolean);
  return html`<${Problem} error=${error && !error.passing && error} />
    <${Table} label="Transactions in the way" columns=${columns} rows=${rows} id=${(b) => b.job_id + ' ' + b.conn_id} empty="No transaction is in the way." />`;
}

// Reason is a reason to wait, in which numbers of jobs lead to these.
function Reason({ text, ids }) {
  if (!text) return '–';
  return html`${text.split(/(\d+)/).map((part) => (ids.has(part) ? jobLink(part) : part))}`;
}

export function Waits() {
  const [jobs, error] = usePolled('jobs?state=active&limit=200', 1.5);
  const queue = byAge(jobs);
  const ids = new Set((queue || []).map((j) => String(j.job_id)));
  const columns = [
    { name: 'Place', kind: 'num', show: (j) => String(queue.indexOf(j) + 1) },
    { name: 'Job', kind: 'num', show: (j) => jobLink(j.job_id) },
    { name: 'Table', show: format.tableOf },
    { name: 'State', show: (j) => html`<${Badge} state=${j.state} />` },
    { name: 'Wait reason', kind: 'long', show: (j) => html`<${Reason} text=${j.wait_reason} ids=${ids} />` },
    { name: 'Since its beginning', kind: 'long', show: (j) => (j.waited_for || []).map((w) => w.reason + ' ' + format.duration(w.seconds)).join(', ') || '–' },
  ];
  return html`<h1 tabindex="-1">Waits</h1>
    <h2>Transactions in the way</h2>
    <${Blockers} />
    <h2>The queue</h2>
    <${Problem} error=${error && !error.passing && error} />
    <${Table} label="Jobs in the order of the queue" columns=${columns} rows=${queue} id=${(j) => j.job_id} empty="The queue is empty." />`;
}
