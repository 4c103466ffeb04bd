// One job: live while it runs, and what it has cost when it has ended.

import { html, useEffect, useRef, useState } from './view.js';
import { follow } from './api.js';
import { usePolled } from './hooks.js';
import { Actions } from './actions.js';
import { Badge, Facts, Problem, Progress } from './ui.js';
import { Chart } from './chart.js';
import { Blockers } from './waits.js';
import { Details } from './details.js';
import * as format from './format.js';

// useJob follows a job.
function useJob(id) {
  const [job, setJob] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => follow(id, {
    row: (row) => {
      setJob(row);
      setError(null);
    },
    error: setError,
  }), [id]);
  return [job, error, setJob];
}

// Heard tells screen readers how far a job is: at each tenth, and when its stage or state changes.
function Heard({ job }) {
  const said = useRef({ mark: '', text: '' });
  const mark = [job.state, job.stage, job.step, Math.floor((job.percent || 0) / 10)].join();
  if (said.current.mark !== mark) {
    const left = job.eta_seconds ? ', ' + format.duration(job.eta_seconds) + ' left' : '';
    said.current = { mark, text: 'Job ' + job.job_id + ' ' + job.state + (job.stage ? ', ' + job.stage : '') + ', ' + Math.floor(job.percent || 0) + ' percent' + left };
  }
  return html`<div class="hidden" aria-live="polite">${said.current.text}</div>`;
}

// Charts are throughput and latency over the time of the job.
function Charts({ job }) {
  const [points, error] = usePolled('jobs/' + job.job_id + '/points', job.end_time ? 0 : 2);
  if (error && !error.passing) return html`<${Problem} error=${error} />`;
  const known = points || [];
  const at = known.map((p) => p.second);
  const each = (column) => known.map((p) => (p.seconds > 0 ? p[column] / p.seconds : 0));
  return html`<div class="charts">
    <${Chart} title="Rows a second" relative at=${at} values=${each('row_count')} show=${format.number} />
    <${Chart} title="Bytes a second" relative binary at=${at} values=${each('bytes')} show=${format.bytes} />
    <${Chart} title="99 of 100 statements take less than" relative at=${at} values=${known.map((p) => p.p99_ms)} show=${format.milliseconds} ink="--warn" />
  </div>`;
}

// reasonOf is why a job waits, unless the page says it otherwise: in its state, or as built and not published.
const reasonOf = (job) => (job.wait_reason === job.state || (job.wait_reason || '').startsWith('publication:') ? '' : job.wait_reason);

export function Job({ argument }) {
  const [job, error, setJob] = useJob(argument);
  if (!job) {
    return html`<h1 tabindex="-1">Job ${argument}</h1>${error ? html`<${Problem} error=${error} />` : html`<p class="loading">Loading ...</p>`}`;
  }
  const running = !job.end_time;
  return html`<h1 tabindex="-1">Job ${String(job.job_id)}: ${format.tableOf(job)} <${Badge} state=${job.state} /></h1>
    <pre class="statement">${format.text(job.query)}</pre>
    <${Problem} error=${error && !error.passing && error} />
    <${Heard} job=${job} />
    <div class="wide"><${Progress} value=${job.percent} label=${'Progress of job ' + job.job_id} /> <strong>${format.percent(job.percent)}</strong></div>
    ${job.error && html`<div class="problem"><strong>Failed</strong> ${job.error}</div>`}
    ${running && reasonOf(job) && html`<p class="wait"><strong>Wait:</strong> ${reasonOf(job)}</p>`}
    ${running && job.step === 'ready' && job.publish === 'manual' && html`<p class="wait"><strong>Built.</strong> No statement reads the index until it is published.</p>`}
    <${Actions} job=${job} onJob=${(row) => setJob({ ...job, ...row })} />
    <${Facts} facts=${[
      ['Stage', format.text(job.stage || job.step)],
      ['Rows read', format.number(job.row_count)],
      running && ['Rows a second', format.number(job.rows_per_second)],
      running && ['Time left', format.duration(job.eta_seconds)],
      [running ? 'Takes' : 'Took', format.between(job.start_time || job.create_time, job.end_time)],
      running && ['Workers', format.text(job.workers) + ' of ' + format.text(job.threads)],
      running && ['Memory', format.bytes(job.memory_bytes)],
      running && ['Temp files', format.bytes(job.temp_bytes)],
      ['Statements, p99', (running ? format.milliseconds(job.foreground_p99_ms) + ' now, ' : '') + format.milliseconds(job.foreground_p99_during_ms) + ' during, ' + format.milliseconds(job.foreground_p99_before_ms) + ' before'],
    ]} />
    <${Charts} job=${job} />
    ${running && html`<h2>Transactions in the way</h2><${Blockers} job=${job.job_id} />`}
    <${Details} job=${job} />`;
}
