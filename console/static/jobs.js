// The queue: index builds that have not ended.

import { html } from './view.js';
import { usePolled } from './hooks.js';
import { Badge, Problem, Progress, Table } from './ui.js';
import * as format from './format.js';

// jobLink leads to the view of a job.
export const jobLink = (id) => html`<a href=${'#/jobs/' + Number(id)}>${String(id)}</a>`;

const columns = [
  { name: 'Job', kind: 'num', show: (j) => jobLink(j.job_id) },
  { name: 'Table', show: format.tableOf },
  { name: 'State', show: (j) => html`<${Badge} state=${j.state} />` },
  { name: 'Stage', show: (j) => format.text(j.stage || j.step) },
  { name: 'Done', show: (j) => html`<span class="done"><${Progress} value=${j.percent} label=${'Job ' + j.job_id} /> ${format.percent(j.percent)}</span>` },
  { name: 'Rows/s', kind: 'num', show: (j) => format.number(j.rows_per_second) },
  { name: 'Left', kind: 'num', show: (j) => format.duration(j.eta_seconds) },
  { name: 'Wait reason', kind: 'long', show: (j) => format.text(j.wait_reason) },
  { name: 'User', show: (j) => format.text(j.user_name) },
];

// byAge orders as the queue does.
export const byAge = (jobs) => jobs && [...jobs].sort((a, b) => a.job_id - b.job_id);

export function Jobs() {
  const [jobs, error] = usePolled('jobs?state=active&limit=200', 1.5);
  const [ended, endedError] = usePolled('jobs?state=ended&limit=5', 5);
  return html`<h1 tabindex="-1">Jobs</h1>
    <${Problem} error=${error && !error.passing && error} />
    <${Table} label="Index builds, the oldest first" columns=${columns} rows=${byAge(jobs)} id=${(j) => j.job_id} empty=${html`No index is being built. <a href="#/run">Build one</a>`} />
    <h2>Ended lately</h2>
    <${Problem} error=${endedError && !endedError.passing && endedError} />
    <${Table} label="The last builds" columns=${endedColumns} rows=${ended} id=${(j) => j.job_id} empty="None yet." />
    <p><a href="#/history">All of the history</a></p>`;
}

// endedColumns are of jobs that have ended.
export const endedColumns = [
  { name: 'Job', kind: 'num', show: (j) => jobLink(j.job_id) },
  { name: 'Table', show: format.tableOf },
  { name: 'State', show: (j) => html`<${Badge} state=${j.state} />` },
  { name: 'Rows', kind: 'num', show: (j) => format.number(j.row_count) },
  { name: 'Index', kind: 'num', show: (j) => format.bytes(j.index_bytes) },
  { name: 'Took', kind: 'num', show: (j) => format.between(j.start_time || j.create_time, j.end_time) },
  { name: 'Ended', kind: 'num', show: (j) => format.time(j.end_time) },
  { name: 'User', show: (j) => format.text(j.user_name) },
  { name: 'Error', kind: 'long', show: (j) => format.text(j.error) },
];
