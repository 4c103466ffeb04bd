// Pieces of which the views are made.

import { html, useLayoutEffect, useRef, useState } from './view.js';
import { useWork } from './hooks.js';

// Problem shows an error with its code, to screen readers at once.
export function Problem({ error }) {
  if (!error) return null;
  const label = error.code ? 'Error ' + error.code + (error.sqlstate ? ' (' + error.sqlstate + ')' : '') : error.status ? 'Refused (' + error.status + ')' : 'Error';
  return html`<div class="problem" role="alert"><strong>${label}</strong> ${error.message}</div>`;
}

// barred are the attributes of a button that the account may not use, for a reason, or that is busy.
export const barred = (lack, busy) => ({ disabled: Boolean(lack || busy), title: lack || undefined });

// Lack says what the account may not do; nothing if it may.
export const Lack = ({ lack }) => (lack ? html`<p class="hint">${lack}</p>` : null);

// publications are the values of fastddl_ddl_publish that a form offers, in words.
export const publications = [['auto', 'when it is built'], ['manual', 'by hand']];

// Table shows rows. A column has name, show(row), and may have kind: num, long or act.
export function Table({ label, columns, rows, id, empty, mark }) {
  if (!rows) return html`<p class="loading">Loading ...</p>`;
  if (rows.length === 0) return html`<p class="empty">${empty || 'None.'}</p>`;
  return html`<table role="table" aria-label=${label}>
    <thead role="rowgroup"><tr role="row">${columns.map((c) => html`<th role="columnheader" scope="col" class=${c.kind || ''}>${c.name}</th>`)}</tr></thead>
    <tbody role="rowgroup">${rows.map(
      (row, i) => html`<tr role="row" key=${id ? id(row) : i} class=${mark ? mark(row) : ''}>
        ${columns.map((c) => html`<td role="cell" class=${c.kind || ''} data-label=${c.name}><span>${c.show(row)}</span></td>`)}
      </tr>`,
    )}</tbody>
  </table>`;
}

// Facts is a list of names and values.
export function Facts({ facts }) {
  return html`<dl class="facts">${facts.filter(Boolean).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// Badge is the state of something, in words.
export function Badge({ state }) {
  const kinds = { synced: 'ok', done: 'ok', running: 'go', finished: 'ok', ready: 'ok', cancelled: 'bad', failed: 'bad', 'rollback done': 'bad', cancelling: 'bad', rollingback: 'bad', paused: 'warn', pausing: 'warn' };
  return html`<span class=${'badge ' + (kinds[state] || '')}>${state || 'unknown'}</span>`;
}

// Progress is a bar. Label names what goes on.
export function Progress({ value, label }) {
  const at = Math.max(0, Math.min(100, Number(value) || 0));
  return html`<span class="progress" role="progressbar" aria-label=${label} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(at)}>
    <span class="bar" style=${{ width: at + '%' }}></span></span>`;
}

let fields = 0;

// Field is a labelled input; children replace the input and get its id.
export function Field({ label, hint, control, ...input }) {
  const [id] = useState(() => 'field' + ++fields);
  const described = hint ? id + 'hint' : undefined;
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${control ? control({ id, 'aria-describedby': described }) : html`<input id=${id} aria-describedby=${described} ...${input} />`}
    ${hint && html`<p class="hint" id=${described}>${hint}</p>`}
  </div>`;
}

// Choice is a field with a list of [value, text].
export function Choice({ label, hint, options, value, onChange, name }) {
  return html`<${Field} label=${label} hint=${hint} control=${(attributes) => html`<select ...${attributes} name=${name} value=${value} onChange=${(e) => onChange(e.target.value)}>
    ${options.map(([v, t]) => html`<option value=${v} selected=${v === value}>${t}</option>`)}
  </select>`} />`;
}

// Dialog is modal. Escape closes it, Enter sends the form. Work of the form fails with an error that is shown; else the dialog is closed.
export function Dialog({ title, label, danger, work, onClose, children, disabled }) {
  const ref = useRef(null);
  const [heading] = useState(() => 'dialog' + ++fields);
  const [run, busy, error] = useWork(async () => {
    await work();
    onClose();
  });
  useLayoutEffect(() => {
    const dialog = ref.current;
    dialog.showModal();
    (dialog.querySelector('input, select, textarea') || dialog.querySelector('button[type=submit]')).focus();
    return () => dialog.close(); // the focus returns to where it was
  }, []);
  const send = (event) => {
    event.preventDefault();
    if (!busy) run();
  };
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${ref} aria-labelledby=${heading} onCancel=${cancel}>
    <form onSubmit=${send}>
      <h2 id=${heading}>${title}</h2>
      ${children}
      <${Problem} error=${error} />
      <div class="buttons">
        <button type="submit" class=${danger ? 'danger' : 'primary'} disabled=${busy || disabled}>${label}</button>
        <button type="button" onClick=${onClose}>Close</button>
      </div>
    </form>
  </dialog>`;
}

// AskButton is a button whose work is done when its dialog has been answered.
export function AskButton({ label, name, title, danger, work, children, lack }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class=${danger ? 'danger' : ''} aria-label=${name} ...${barred(lack)} onClick=${() => setOpen(true)}>${label}</button>
    ${open && html`<${Dialog} title=${title} label=${title} danger=${danger} work=${work} onClose=${() => setOpen(false)}>${children}</${Dialog}>`}`;
}
