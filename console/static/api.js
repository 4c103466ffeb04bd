// Requests to the server's API, their errors, and what is known of the connection.

const base = '/api/v1/';

// Requests that only ask are given up after readTimeout, others after changeTimeout, which is longer than the server's own bound.
const readTimeout = 15000;
const changeTimeout = 70000;
const retryAfter = 2000;

let token = '';
const listeners = new Set();

// state is what the page knows of the server: trouble is a sentence while it does not answer or is not ready, else empty.
// grants are what the account may do, as GET session has them.
export const state = { user: undefined, grants: [], version: '', trouble: '', ended: false };

function change(values) {
  if (Object.keys(values).every((k) => state[k] === values[k])) return;
  Object.assign(state, values);
  listeners.forEach((listener) => listener());
}

// listen calls fn at each change of state, until the function that it returns is called.
export function listen(fn) {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

// APIError is an answer that refuses, or the lack of one (status 0).
export class APIError extends Error {
  constructor(status, body) {
    super(body.message || 'The server has answered ' + status + '.');
    this.status = status;
    this.code = body.code || 0;
    this.sqlstate = body.sqlstate || '';
  }

  // passing says that the same request may succeed in a while.
  get passing() {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

// parse keeps whole numbers that JavaScript cannot hold, such as those of connections, as text.
function parse(text) {
  return JSON.parse(text, (key, value, context) => {
    if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && context && context.source) return context.source;
    return value;
  });
}

// request returns the body of the answer. It fails with an APIError.
export async function request(method, path, body, headers = {}) {
  const options = { method, headers: { ...headers }, cache: 'no-store', signal: AbortSignal.timeout(method === 'GET' ? readTimeout : changeTimeout) };
  if (method !== 'GET') {
    options.headers['Content-Type'] = 'application/json';
    options.headers['X-Fastddl-Token'] = token;
    options.body = JSON.stringify(body || {});
  }
  let response, text;
  try {
    response = await fetch(base + path, options);
    text = await response.text();
  } catch (error) {
    change({ trouble: 'The server does not answer. Trying again ...' });
    throw new APIError(0, { message: 'The server does not answer.' });
  }
  let answer;
  try {
    answer = parse(text);
  } catch (error) {
    answer = { message: text.trim() }; // of what stands before the API
  }
  if (response.ok) {
    change({ trouble: '' });
    return answer;
  }
  const error = new APIError(response.status, answer);
  change({ trouble: response.status === 503 ? 'The server is not ready: ' + error.message : '' });
  if (response.status === 401 && path !== 'session') {
    token = '';
    change({ user: null, ended: true });
  }
  if (response.status === 403 && method !== 'GET') readGrants();
  throw error;
}

export const get = (path) => request('GET', path);

// resume finds out whether the browser has logged in before.
export async function resume() {
  try {
    accept(await get('session'));
  } catch (error) {
    if (error.passing) {
      setTimeout(resume, retryAfter);
      return;
    }
    change({ user: null });
  }
}

function accept(session) {
  token = session.token || '';
  change({ user: session.user, grants: session.grants, version: session.version, ended: false });
}

// readGrants reads again what the account may do. Without an answer it stays what was known.
export async function readGrants() {
  const session = await get('session').catch(() => null);
  if (session && session.user === state.user) change({ grants: session.grants });
}

export async function logIn(user, password) {
  accept(await request('POST', 'session', { user, password }));
}

export async function logOut() {
  await request('DELETE', 'session');
  token = '';
  change({ user: null, ended: false });
}

// follow calls on.row with a job each time it changes, on.error when it cannot be read, until it has ended or the function that it returns
// is called. It connects again by itself.
export function follow(id, on) {
  let source, timer, closed = false;
  const close = () => {
    closed = true;
    clearTimeout(timer);
    if (source) source.close();
  };
  const open = () => {
    source = new EventSource(base + 'jobs/' + id + '/events');
    source.addEventListener('progress', (event) => {
      change({ trouble: '' });
      on.row(parse(event.data));
    });
    source.addEventListener('end', (event) => {
      close();
      on.row(parse(event.data));
    });
    // Also the browser's own, which does not say why: a request does.
    source.addEventListener('error', () => {
      source.close();
      if (!closed) timer = setTimeout(look, retryAfter);
    });
  };
  const look = async () => {
    try {
      const row = await get('jobs/' + id);
      if (closed) return;
      on.row(row);
      if (row.end_time) close();
      else open();
    } catch (error) {
      if (closed) return;
      on.error(error);
      if (error.passing) timer = setTimeout(look, retryAfter);
    }
  };
  look();
  return close;
}

// newKey returns a text that no other request has, for Idempotency-Key.
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}
