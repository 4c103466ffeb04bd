// The answer of EXPLAIN, as a table that people read.

import { html } from './view.js';
import { Table } from './ui.js';
import * as format from './format.js';

const seconds = (v) => v.replace(/[\d.]+/g, (n) => format.duration(n)).replace('-', ' to ');
const same = (v) => format.text(v);

// items are names of rows, in the order in which they are shown, with what makes text of an estimate.
const items = {
  rows: ['Rows', format.number], index_bytes: ['Size of the index', format.bytes], existing_index: ['An index that begins so', same],
  duplicates: ['Equal values', same], row_errors: ['Rows that the index cannot have', same], seconds: ['Time', seconds], stage_seconds: ['of it', seconds],
  read_bytes: ['Reads', format.bytes], memory_bytes: ['Memory', format.bytes], temp_bytes: ['Temp files', format.bytes], store_bytes: ['Room in the store', format.bytes],
  jobs_ahead: ['Jobs before it', format.number], open_transactions: ['Open transactions', format.number], built_by: ['Built by', same], verdict: ['Verdict', same],
};

// warns says that a row needs attention.
function warns(row) {
  switch (row.item) {
    case 'existing_index':
    case 'row_errors':
      return true;
    case 'duplicates':
      return row.estimate === 'found';
    case 'built_by':
      return row.estimate !== 'fastddl';
    case 'jobs_ahead':
    case 'open_transactions':
      return Number(row.estimate) > 0;
    case 'verdict':
      return row.estimate !== 'fits' || Boolean(row.info);
  }
  return false;
}

const value = (row) => {
  const [, show] = items[row.item] || ['', same];
  const plain = show === same || show === seconds || /^[\d.]+$/.test(row.estimate);
  return row.estimate === null ? '–' : (plain ? show : same)(String(row.estimate));
};

const columns = [
  { name: 'What', show: (r) => (items[r.item] ? items[r.item][0] : r.item) + (r.name ? ' ' + r.name : '') },
  { name: 'Estimate', kind: 'num', show: value },
  { name: 'Details', kind: 'long', show: (r) => html`${warns(r) && html`<strong class="warning">Warning: </strong>`}${format.text(r.info)}` },
];

const verdicts = { fits: 'It fits.', 'does not fit': 'It does not fit.' };

export function Estimates({ rows }) {
  const verdict = rows.find((r) => r.item === 'verdict') || { estimate: 'unknown', info: '' };
  const warned = rows.filter((r) => warns(r) && r.item !== 'verdict').length;
  const kind = verdict.estimate === 'does not fit' ? 'bad' : warned > 0 || warns(verdict) ? 'warn' : 'ok';
  return html`<section aria-label="What the build would cost">
    <h2>What it would cost</h2>
    <div class=${'verdict ' + kind} role="status"><strong>${verdicts[verdict.estimate] || verdict.estimate}</strong> ${verdict.info || ''}
      ${warned > 0 && html` <span>${warned === 1 ? 'One warning below.' : warned + ' warnings below.'}</span>`}</div>
    <${Table} label="Estimates" columns=${columns} rows=${rows.filter((r) => r !== verdict)} mark=${(r) => (warns(r) ? 'warned' : '')} />
  </section>`;
}
