// Jobs that have ended, the newest first, page by page.

import { html, useEffect, useState } from './view.js';
import { get } from './api.js';
import { useWork } from './hooks.js';
import { Field, Problem, Table } from './ui.js';
import { endedColumns } from './jobs.js';
import { tableOf } from './format.js';

const page = 50;

export function History() {
  const [jobs, setJobs] = useState(null);
  const [more, setMore] = useState(false);
  const [wanted, setWanted] = useState('');
  const [load, busy, error] = useWork(async (old) => {
    const before = old.length > 0 ? '&before=' + old[old.length - 1].job_id : '';
    const found = await get('jobs?state=ended&limit=' + page + before);
    setJobs([...old, ...found]);
    setMore(found.length === page);
  });
  useEffect(() => {
    load([]);
  }, []);
  const word = wanted.toLowerCase();
  const shown = jobs && jobs.filter((j) => (tableOf(j) + ' ' + j.query + ' ' + j.state + ' ' + j.user_name + ' ' + j.job_id).toLowerCase().includes(word));
  return html`<h1 tabindex="-1">History</h1>
    <${Field} label="Show those with" hint="A part of table, statement, state, user or number" type="search" value=${wanted} onInput=${(e) => setWanted(e.target.value)} />
    <${Problem} error=${error} />
    ${(jobs || !error) && html`<${Table} label="Index builds that have ended" columns=${endedColumns} rows=${shown} id=${(j) => j.job_id} empty="None." />`}
    <div class="buttons">
      ${more && html`<button type="button" disabled=${busy} onClick=${() => load(jobs)}>Older ones</button>`}
      ${error && !jobs && html`<button type="button" disabled=${busy} onClick=${() => load([])}>Try again</button>`}
    </div>`;
}
