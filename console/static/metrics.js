// The metrics of the server, as Prometheus reads them.

import { APIError } from './api.js';

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;

// Metrics are values by name and labels.
class Metrics {
  constructor(text) {
    this.values = new Map();
    for (const [, name, labels, value] of text.split('\n').map((l) => line.exec(l)).filter(Boolean)) {
      if (!this.values.has(name)) this.values.set(name, []);
      const named = {};
      for (const [, label, v] of (labels || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) named[label] = v;
      this.values.get(name).push([named, Number(value)]);
    }
  }

  has(name) {
    return this.values.has(name);
  }

  // value is that of a metric without labels, or the sum.
  value(name) {
    return this.labelled(name).reduce((sum, [, v]) => sum + v, 0);
  }

  labelled(name) {
    return this.values.get(name) || [];
  }
}

export async function readMetrics(path) {
  let response;
  try {
    response = await fetch(path, { cache: 'no-store' });
  } catch (error) {
    throw new APIError(0, { message: 'The server does not answer.' });
  }
  if (!response.ok) throw new APIError(response.status, { message: 'The metrics cannot be read.' });
  return new Metrics(await response.text());
}
