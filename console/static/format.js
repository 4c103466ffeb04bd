// Values as people read them. All return text.

const none = '–';
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const missing = (v) => v === null || v === undefined || v === '';

export const text = (v) => (missing(v) ? none : typeof v === 'object' ? JSON.stringify(v) : String(v));

export const number = (v) => (missing(v) ? none : whole.format(Number(v)));

export const decimal = (v, digits = 1) => (missing(v) ? none : Number(v).toFixed(digits));

export function bytes(v) {
  if (missing(v)) return none;
  let n = Number(v), unit = 0;
  if (n === 0) return '0 B';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  while (Math.abs(n) >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return (unit === 0 || n >= 100 ? n.toFixed(0) : n.toPrecision(3)) + ' ' + units[unit];
}

export function duration(seconds) {
  if (missing(seconds)) return none;
  const s = Number(seconds);
  if (s < 10) return s.toFixed(s < 1 ? 2 : 1) + ' s';
  if (s < 60) return s.toFixed(0) + ' s';
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return minutes + ' min ' + String(Math.floor(s % 60)).padStart(2, '0') + ' s';
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return hours + ' h ' + String(minutes % 60).padStart(2, '0') + ' min';
  return Math.floor(hours / 24) + ' d ' + (hours % 24) + ' h';
}

export function milliseconds(v) {
  if (missing(v)) return none;
  const n = Number(v);
  if (n === 0) return '0 ms';
  return n < 10 ? decimal(n) + ' ms' : n < 1000 ? number(n) + ' ms' : duration(n / 1000);
}

export const percent = (v) => (missing(v) ? none : decimal(v, 1) + ' %');

// time is that of the browser's clock; without a date if it is today's.
export function time(v) {
  if (missing(v)) return none;
  const at = new Date(v);
  if (Number.isNaN(at.getTime())) return String(v);
  const pad = (n) => String(n).padStart(2, '0');
  const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(':');
  if (at.toDateString() === new Date().toDateString()) return clock;
  return at.getFullYear() + '-' + pad(at.getMonth() + 1) + '-' + pad(at.getDate()) + ' ' + clock;
}

// between is the time from one moment to another, or to now.
export function between(from, to) {
  if (missing(from)) return none;
  return duration(Math.max(0, (to ? new Date(to) : new Date()) - new Date(from)) / 1000);
}

// tableOf names the table of a job.
export const tableOf = (job) => job.db_name + '.' + job.table_name;
