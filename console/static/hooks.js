// Hooks of Preact that several views use.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from './view.js';
import { get, listen, state } from './api.js';

// useServer returns the state of the log-in and the connection.
export function useServer() {
  const [, again] = useState(0);
  useLayoutEffect(() => listen(() => again((n) => n + 1)), []); // at once: an answer may be there before the page is drawn
  return state;
}

// useRoute returns the parts of the address behind #/.
export function useRoute() {
  const read = () => location.hash.replace(/^#\/?/, '').split('/');
  const [route, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}

// usePolled reads a path again and again while the page is seen. It returns the newest answer, the error of the last reading, and a function
// that reads at once. Null is no path. What was read stays when a reading fails.
export function usePolled(path, seconds, read = get) {
  const [result, set] = useState({ path: null, data: null, error: null });
  const now = useRef(() => {});
  useEffect(() => {
    if (path === null) return undefined;
    let timer, ended = false, reading = 0;
    const step = async () => {
      clearTimeout(timer);
      const mine = ++reading;
      let found;
      try {
        found = { data: await read(path), error: null };
      } catch (error) {
        found = { error };
      }
      if (ended || mine !== reading) return;
      set((old) => ({ data: old.path === path ? old.data : null, ...found, path }));
      if (seconds && !document.hidden) timer = setTimeout(step, seconds * 1000);
    };
    const seen = () => {
      if (!document.hidden) step();
    };
    now.current = step;
    document.addEventListener('visibilitychange', seen);
    step();
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [path, seconds]);
  const current = result.path === path ? result : { data: null, error: null };
  return [current.data, current.error, useCallback(() => now.current(), [])];
}

// useWork returns a function that executes work which takes a while, whether it does, and its error.
export function useWork(work) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const run = async (...args) => {
    setBusy(true);
    setError(null);
    try {
      return await work(...args);
    } catch (problem) {
      setError(problem);
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return [run, busy, error, setError];
}
