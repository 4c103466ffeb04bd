// Values over time, drawn by uPlot.

import { html, useEffect, useRef, useState } from './view.js';
import { colour, onTheme } from './theme.js';

/* global uPlot */

const height = 130;

// halves are steps of an axis of bytes.
const halves = Array.from({ length: 50 }, (_, i) => 2 ** i);

// Chart draws one row of values. at are seconds: since the epoch, or since a start if relative. show makes text of a value; binary are bytes.
export function Chart({ title, at, values, show, relative, binary, ink = '--accent' }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [pointed, setPointed] = useState(null);
  const data = [at, values];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const make = () => {
      if (plot.current) plot.current.destroy();
      const axis = { stroke: colour('--muted'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
      plot.current = new uPlot(
        {
          width: Math.max(120, box.current.clientWidth), height,
          legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
          scales: { x: { time: !relative }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.1 : 10] } },
          axes: [{ ...axis, size: 24, space: relative ? 50 : 80, values: (u, ticks) => ticks.map((s) => (relative ? s + ' s' : new Date(s * 1000).toTimeString().slice(0, 8))) }, { ...axis, size: 64, ...(binary ? { incrs: halves } : {}), values: (u, ticks) => ticks.map(show) }],
          series: [{}, { stroke: colour(ink), width: 1.5, fill: colour(ink).replace(')', ' / 0.12)').replace(/, /g, ' ').replace('rgba', 'rgb'), points: { show: (u) => u.data[0].length === 1, size: 6, fill: colour(ink) }, spanGaps: false }],
          hooks: { setCursor: [(u) => setPointed(u.cursor.idx === undefined ? null : u.cursor.idx)] },
        },
        latest.current, box.current,
      );
    };
    make();
    const sizes = new ResizeObserver(() => {
      const width = Math.max(120, box.current.clientWidth);
      if (plot.current.width !== width) plot.current.setSize({ width, height });
    });
    sizes.observe(box.current);
    const stop = onTheme(make);
    return () => {
      stop();
      sizes.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [relative, ink]);
  useEffect(() => {
    if (plot.current) plot.current.setData(data);
  }, [at.length, at[at.length - 1], values[values.length - 1]]);
  const known = values.filter((v) => v !== null && v !== undefined);
  const newest = known[known.length - 1];
  const shown = pointed !== null && values[pointed] !== undefined && values[pointed] !== null ? values[pointed] : newest;
  const summary = known.length === 0 ? title + ': no values yet' : title + ': last ' + show(newest) + ', highest ' + show(Math.max(...known));
  return html`<figure class="chart">
    <figcaption>${title} <strong>${known.length === 0 ? 'no values yet' : show(shown)}</strong></figcaption>
    <div ref=${box} role="img" aria-label=${summary}></div>
  </figure>`;
}
