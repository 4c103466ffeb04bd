// The form by which an index is explained and built.

import { html, useRef, useState } from './view.js';
import { newKey, request } from './api.js';
import { useWork } from './hooks.js';
import { lackForBuild } from './rights.js';
import { Choice, Field, Lack, Problem, Table, barred, publications } from './ui.js';
import { Estimates } from './estimates.js';

const numbers = ['thread', 'batch_size', 'nodes'];

// kept is the form while the page is open, so that a look at another view costs nothing.
let kept = { schema: '', statement: '', settings: { publish: '' } };

// bodyOf is what the API takes: settings that were left empty follow the variables.
function bodyOf(form) {
  const settings = {};
  for (const [name, value] of Object.entries(form.settings)) {
    if (value !== '') settings[name] = numbers.includes(name) ? Number(value) : value;
  }
  return { schema: form.schema.trim(), statement: form.statement, settings };
}

const warnings = [
  { name: 'Level', show: (w) => w.level },
  { name: 'Code', kind: 'num', show: (w) => String(w.code) },
  { name: 'Message', kind: 'long', show: (w) => w.message },
];

// Settings are those that most builds leave alone.
function Settings({ values, set }) {
  const input = (name, label, hint, more) => html`<${Field} label=${label} hint=${hint} name=${name} value=${values[name] || ''} ...${more} onInput=${(e) => set(name, e.target.value)} />`;
  const choice = (name, label, options) => html`<${Choice} label=${label} name=${name} value=${values[name] || ''} options=${[['', 'as the variable says'], ...options.map((o) => [o, o])]} onChange=${(v) => set(name, v)} />`;
  return html`<details><summary>More settings</summary><div class="grid">
    ${input('batch_size', 'Batch size', 'Rows', { type: 'number', min: 32, max: 10240 })}
    ${input('max_hold', 'Longest hold', 'Of garbage collection, such as 2h')}
    ${input('nodes', 'Nodes', 'That build one index', { type: 'number', min: 1, max: 128 })}
    ${choice('priority', 'Priority', ['PRIORITY_LOW', 'PRIORITY_NORMAL', 'PRIORITY_HIGH'])}
    ${choice('verify', 'Verify', ['auto', 'full'])}
    ${choice('preflight', 'Where room is missing', ['off', 'warn', 'enforce'])}
    ${choice('engine', 'Engine', ['fastddl', 'tidb'])}
  </div></details>`;
}

export function Run() {
  const [form, setForm] = useState(kept);
  const [rows, setRows] = useState(null);
  const [made, setMade] = useState(null);
  const key = useRef(newKey());
  const change = (values) => {
    kept = { ...form, ...values };
    setForm(kept);
    setRows(null);
    setMade(null);
    key.current = newKey(); // another request
  };
  const set = (name, value) => change({ settings: { ...form.settings, [name]: value } });
  const [explain, explaining, explainError, setExplainError] = useWork(async () => {
    setRows(null);
    setRows(await request('POST', 'explain', bodyOf(form)));
  });
  // A request whose answer was lost is sent with the same key, and gets the job that it has made.
  const [run, running, runError, setRunError] = useWork(async () => {
    const answer = await request('POST', 'jobs', bodyOf(form), { 'Idempotency-Key': key.current });
    key.current = newKey();
    if (answer.job) location.hash = '#/jobs/' + Number(answer.job_id);
    else setMade(answer);
  });
  const busy = explaining || running;
  const lack = lackForBuild();
  const asked = (work, other) => {
    other(null);
    if (!busy && !lack && document.getElementById('build').reportValidity()) work();
  };
  const typed = (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) asked(explain, setRunError);
  };
  return html`<h1 tabindex="-1">Explain and run</h1>
    <form id="build" onSubmit=${(e) => { e.preventDefault(); asked(explain, setRunError); }}>
      <${Field} label="Schema" name="schema" hint="The database of the statement; empty if the statement names it" autocomplete="off" autocapitalize="none" spellcheck=${false} value=${form.schema} onInput=${(e) => change({ schema: e.target.value })} />
      <${Field} label="Statement" hint="CREATE INDEX, or ALTER TABLE that adds indexes. Ctrl+Enter explains it" control=${(attributes) => html`<textarea ...${attributes} name="statement" rows="4" required spellcheck=${false} value=${form.statement} onInput=${(e) => change({ statement: e.target.value })} onKeyDown=${typed}></textarea>`} />
      <div class="grid">
        <${Choice} label="Publish" name="publish" hint="By hand: until you press Publish no statement reads the index" value=${form.settings.publish} options=${[['', 'as the variable says'], ...publications]} onChange=${(v) => set('publish', v)} />
        <${Field} label="Window" name="window" hint="Such as 22:00-06:00 Europe/Berlin" autocomplete="off" value=${form.settings.window || ''} onInput=${(e) => set('window', e.target.value)} />
        <${Field} label="Threads" name="thread" type="number" min="1" max="256" value=${form.settings.thread || ''} onInput=${(e) => set('thread', e.target.value)} />
      </div>
      <${Settings} values=${form.settings} set=${set} />
      <div class="buttons">
        <button type="submit" ...${barred(lack, busy)}>Explain</button>
        <button type="button" class="primary" ...${barred(lack, busy)} onClick=${() => asked(run, setExplainError)}>Run</button>
        <span role="status">${explaining ? 'Looking at the table ...' : running ? 'Handing it in ...' : ''}</span>
      </div>
      <${Lack} lack=${lack} />
    </form>
    <${Problem} error=${runError || explainError} />
    ${made && html`<div class="note" role="status">${made.job_id ? 'TiDB builds the index, as job ' + made.job_id + '.' : 'There was nothing to do.'}</div>
      ${(made.warnings || []).length > 0 && html`<${Table} label="Warnings" columns=${warnings} rows=${made.warnings} />`}`}
    ${rows && html`<${Estimates} rows=${rows} />`}`;
}
