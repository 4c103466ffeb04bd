// Global variables of builds, each with a button to change it.

import { html, useState } from './view.js';
import { request } from './api.js';
import { usePolled } from './hooks.js';
import { lackForSettings } from './rights.js';
import { Choice, Dialog, Field, Lack, Problem, Table, barred } from './ui.js';
import * as format from './format.js';

function Change({ setting, onClose, onChanged }) {
  const [value, setValue] = useState(setting.value);
  const options = setting.kind === 'bool' ? ['ON', 'OFF'] : setting.values;
  const send = () => request('PATCH', 'settings', { [setting.name]: value }).then(onChanged);
  return html`<${Dialog} title=${'Change ' + setting.name} label="Change" work=${send} onClose=${onClose} disabled=${value === setting.value}>
    <p>${setting.doc}.</p>
    ${options
      ? html`<${Choice} label="Global value" name="value" value=${value} options=${options.map((o) => [o, o])} onChange=${setValue} />`
      : html`<${Field} label="Global value" name="value" hint=${'At first ' + (setting.default || 'empty')} value=${value} onInput=${(e) => setValue(e.target.value)} />`}
  </${Dialog}>`;
}

export function Settings() {
  const [settings, error, reload] = usePolled('settings', 10);
  const [changed, setChanged] = useState(null);
  const lack = lackForSettings();
  const columns = [
    { name: 'Variable', show: (s) => html`<code>${s.name}</code>` },
    { name: 'Value', kind: 'long', show: (s) => html`<code>${s.value === '' ? "''" : format.text(s.value)}</code>${s.value !== s.default && ' (changed)'}` },
    { name: 'What it does', kind: 'long', show: (s) => s.doc },
    { name: 'Change', kind: 'act', show: (s) => html`<button type="button" aria-label=${'Change ' + s.name} ...${barred(lack)} onClick=${() => setChanged(s)}>Change ...</button>` },
  ];
  return html`<${Problem} error=${error && !error.passing && error} />
    <${Lack} lack=${lack} />
    <${Table} label="Settings of builds" columns=${columns} rows=${settings} id=${(s) => s.name} />
    ${changed && html`<${Change} setting=${changed} onChanged=${reload} onClose=${() => setChanged(null)} />`}`;
}
