// Imports of files: those that there are, and a form for another.

import { html, useState } from './view.js';
import { request } from './api.js';
import { usePolled } from './hooks.js';
import { lackForImport } from './rights.js';
import { AskButton, Badge, Choice, Dialog, Field, Lack, Problem, Table, barred } from './ui.js';
import * as format from './format.js';

const live = (i) => i.status === 'pending' || i.status === 'running';

// optionsOf reads lines of name = value, or of a name.
function optionsOf(text) {
  const options = {};
  for (const line of text.split('\n')) {
    const at = line.indexOf('=');
    const name = (at < 0 ? line : line.slice(0, at)).trim();
    if (name) options[name] = at < 0 ? '' : line.slice(at + 1).trim().replace(/^(['"])(.*)\1$/, '$2');
  }
  return options;
}

function Start({ onClose, onStarted }) {
  const [form, setForm] = useState({ schema: '', table: '', source: '', format: '', skip_rows: '', options: '' });
  const set = (name) => (e) => setForm({ ...form, [name]: e.target.value });
  const send = async () => {
    const options = optionsOf(form.options);
    if (form.skip_rows !== '') options.skip_rows = form.skip_rows;
    const body = { schema: form.schema, table: form.table, source: form.source, options };
    if (form.format) body.format = form.format;
    onStarted(await request('POST', 'imports', body));
  };
  return html`<${Dialog} title="Import files" label="Import" work=${send} onClose=${onClose}>
    <div class="grid">
      <${Field} label="Schema" name="schema" required autocapitalize="none" value=${form.schema} onInput=${set('schema')} />
      <${Field} label="Table" name="table" hint="It has to be empty" required autocapitalize="none" value=${form.table} onInput=${set('table')} />
    </div>
    <${Field} label="Files" name="source" hint="A path or pattern below the server's secure-file-priv, or a URL of a storage" required autocapitalize="none" spellcheck=${false} value=${form.source} onInput=${set('source')} />
    <div class="grid">
      <${Choice} label="Format" name="format" value=${form.format} options=${[['', 'by the name'], ['csv', 'csv'], ['sql', 'sql'], ['parquet', 'parquet']]} onChange=${(v) => setForm({ ...form, format: v })} />
      <${Field} label="Lines to skip" name="skip_rows" type="number" min="0" value=${form.skip_rows} onInput=${set('skip_rows')} />
    </div>
    <${Field} label="Other options" hint="One on a line, such as fields_terminated_by = ';'" control=${(attributes) => html`<textarea ...${attributes} name="options" rows="2" spellcheck=${false} value=${form.options} onInput=${set('options')}></textarea>`} />
  </${Dialog}>`;
}

export function Imports() {
  const [rows, error, reload] = usePolled('imports', 1.5);
  const [open, setOpen] = useState(false);
  const [started, setStarted] = useState('');
  const lack = lackForImport();
  const cancel = (i) => request('POST', 'imports/' + i.job_id + '/cancel').then(reload);
  const columns = [
    { name: 'Import', kind: 'num', show: (i) => String(i.job_id) },
    { name: 'Table', show: (i) => format.text(i.target_table) },
    { name: 'State', show: (i) => html`<${Badge} state=${i.status} />` },
    { name: 'Phase', show: (i) => format.text(i.phase) },
    { name: 'Rows', kind: 'num', show: (i) => format.number(i.imported_rows) },
    { name: 'Files', kind: 'long', show: (i) => format.text(i.data_source) + (i.source_file_size ? ', ' + i.source_file_size : '') },
    { name: 'Took', kind: 'num', show: (i) => format.between(i.start_time || i.create_time, i.end_time) },
    { name: 'By', show: (i) => format.text(i.created_by) },
    { name: 'Result', kind: 'long', show: (i) => format.text(i.result_message) },
    {
      name: 'Cancel', kind: 'act',
      show: (i) => live(i) && html`<${AskButton} label="Cancel ..." name=${'Cancel import ' + i.job_id} danger title=${'Cancel import ' + i.job_id} work=${() => cancel(i)}>
        <p>What it has imported is removed. The table stays empty.</p>
      </${AskButton}>`,
    },
  ];
  const begun = (row) => {
    setStarted(row.job_id ? 'Import ' + row.job_id + ' has begun.' : 'The import has begun.');
    reload();
  };
  const newest = rows && [...rows].sort((a, b) => b.job_id - a.job_id);
  return html`<h1 tabindex="-1">Imports</h1>
    <div class="buttons"><button type="button" class="primary" ...${barred(lack)} onClick=${() => setOpen(true)}>Import files ...</button> <span role="status">${started}</span></div>
    <${Lack} lack=${lack} />
    <${Problem} error=${error && !error.passing && error} />
    <${Table} label="Imports, the newest first" columns=${columns} rows=${newest} id=${(i) => i.job_id} empty="No files have been imported by this account." />
    ${open && html`<${Start} onStarted=${begun} onClose=${() => setOpen(false)} />`}`;
}
