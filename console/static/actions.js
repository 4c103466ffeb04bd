// What may be asked of a job that has not ended.

import { html, useState } from './view.js';
import { request } from './api.js';
import { useWork } from './hooks.js';
import { lackForJob } from './rights.js';
import { AskButton, Choice, Dialog, Field, Lack, Problem, barred, publications } from './ui.js';

const undone = ['cancelling', 'rollingback', 'rollback done', 'cancelled'];

// mayAsk says which actions make sense in the state of a job. lackForJob says whether the account may ask for them.
export function mayAsk(job) {
  const live = !job.end_time && !undone.includes(job.state);
  const stopped = job.state === 'paused' || job.state === 'pausing';
  return { pause: live && !stopped, resume: live && stopped, cancel: live, alter: live, publish: live && !stopped && job.publish === 'manual' };
}

// held is a hold as it is typed: the settings have it in nanoseconds.
const held = (v) => (typeof v === 'number' ? v / 1e9 + 's' : String(v || ''));

// Alter changes settings of a job: those that were changed in its form.
function Alter({ job, onJob, onClose }) {
  const own = job.settings || {};
  const [first] = useState(() => ({
    thread: String(own.threads || ''), batch_size: String(own.batch_size || ''), max_write_speed: String(own.max_write_speed || ''),
    window: job.job_window || '', max_hold: held(own.max_hold), publish: job.publish === 'manual' ? 'manual' : 'auto',
  }));
  const [values, setValues] = useState(first);
  const input = (name, label, hint, more) => html`<${Field} label=${label} hint=${hint} name=${name} value=${values[name]} ...${more} onInput=${(e) => setValues({ ...values, [name]: e.target.value })} />`;
  const changed = Object.keys(values).filter((name) => values[name] !== first[name]);
  const send = async () => {
    const body = {};
    for (const name of changed) {
      body[name] = name === 'thread' || name === 'batch_size' ? Number(values[name]) : values[name];
    }
    onJob(await request('PATCH', 'jobs/' + job.job_id, body));
  };
  return html`<${Dialog} title=${'Alter job ' + job.job_id} label="Alter" work=${send} onClose=${onClose} disabled=${changed.length === 0}>
    <div class="grid">
      ${input('thread', 'Threads', 'Empty: as the variable says', { type: 'number', min: 1, max: 256 })}
      ${input('batch_size', 'Batch size', 'Rows', { type: 'number', min: 32, max: 10240 })}
      ${input('max_write_speed', 'Write speed', 'Bytes a second, such as 20MiB; 0 is no limit')}
      ${input('window', 'Window', 'Such as 22:00-06:00 Europe/Berlin; empty is always')}
      ${input('max_hold', 'Longest hold', 'Of garbage collection, such as 2h')}
      <${Choice} label="Publish" name="publish" value=${values.publish} options=${publications} onChange=${(v) => setValues({ ...values, publish: v })} />
    </div>
  </${Dialog}>`;
}

// Actions are the buttons of a job. onJob gets the job as it is afterwards.
export function Actions({ job, onJob }) {
  const [altering, setAltering] = useState(false);
  const [ask, busy, error] = useWork(async (what) => onJob(await request('POST', 'jobs/' + job.job_id + '/' + what)));
  const may = mayAsk(job);
  if (!may.cancel) return null;
  const lack = lackForJob(job);
  return html`<div class="buttons" role="group" aria-label=${'Actions of job ' + job.job_id}>
      ${may.publish && html`<button type="button" class=${job.step === 'ready' ? 'primary' : ''} ...${barred(lack, busy)} onClick=${() => ask('publish')}>${job.step === 'ready' ? 'Publish' : 'Publish when built'}</button>`}
      ${may.pause && html`<button type="button" ...${barred(lack, busy)} onClick=${() => ask('pause')}>Pause</button>`}
      ${may.resume && html`<button type="button" class="primary" ...${barred(lack, busy)} onClick=${() => ask('resume')}>Resume</button>`}
      ${may.alter && html`<button type="button" ...${barred(lack)} onClick=${() => setAltering(true)}>Alter ...</button>`}
      ${may.cancel && html`<${AskButton} label="Cancel ..." danger lack=${lack} title=${'Cancel job ' + job.job_id} work=${async () => onJob(await request('POST', 'jobs/' + job.job_id + '/cancel'))}>
        <p>The build stops, and what it has built is removed. The table stays as it is.</p>
      </${AskButton}>`}
    </div>
    <${Lack} lack=${lack} />
    <${Problem} error=${error} />
    ${altering && html`<${Alter} job=${job} onJob=${onJob} onClose=${() => setAltering(false)} />`}`;
}
