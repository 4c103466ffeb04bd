// What the account may do, so that the page offers no more. What is known here may be old: the server decides.

import { state } from './api.js';

const same = (a, b) => a.toLowerCase() === b.toLowerCase();

// like says that a name meets a pattern of SQL's LIKE.
function like(pattern, name) {
  const plain = (c) => c.replace(/[^\w\s]/g, '\\$&');
  const text = pattern.replace(/\\([^])|[^]/g, (c, escaped) => (escaped ? plain(escaped) : c === '%' ? '.*' : c === '_' ? '.' : plain(c)));
  return new RegExp('^' + text + '$', 'is').test(name);
}

const covers = (g, schema, table) => !g.schema || (g.table ? same(g.schema, schema) && same(g.table, table) : like(g.schema, schema));

const having = (...names) => state.grants.filter((g) => names.some((name) => g.privileges.includes(name)));

const globally = (name) => having(name).some((g) => !g.schema);

const lacks = (what) => 'This account lacks ' + what + '.';

// Each of the rest returns a sentence that says which privilege is missing, or nothing.

export function lackForJob(job) {
  if (globally('SUPER') || having('ALTER', 'INDEX').some((g) => covers(g, job.db_name, job.table_name))) return '';
  return lacks('ALTER or INDEX on ' + job.db_name + '.' + job.table_name);
}

export const lackForBuild = () => (having('ALTER', 'INDEX').length > 0 ? '' : lacks('ALTER or INDEX on any table'));

export function lackForImport() {
  const missing = ['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'ALTER'].filter((name) => having(name).length === 0);
  return missing.length > 0 ? lacks(missing.join(', ') + ' on any table') : '';
}

export function lackForEnd(user) {
  return globally('CONNECTION_ADMIN') || state.user.startsWith(user + '@') ? '' : lacks('CONNECTION_ADMIN');
}

export const lackForSettings = () => (globally('SYSTEM_VARIABLES_ADMIN') ? '' : lacks('SYSTEM_VARIABLES_ADMIN'));
