// The page: log-in, views by address, and what is known of the connection.

import { html, render, useEffect, useLayoutEffect, useRef } from './view.js';
import { logOut, readGrants, resume } from './api.js';
import { useRoute, useServer, useWork } from './hooks.js';
import { ThemeSwitch } from './theme.js';
import { LogIn } from './login.js';
import { Jobs } from './jobs.js';
import { Job } from './job.js';
import { Run } from './run.js';
import { Waits } from './waits.js';
import { History } from './history.js';
import { Imports } from './imports.js';
import { Health } from './health.js';

const views = { jobs: ['Jobs', Jobs], run: ['Run', Run], waits: ['Waits', Waits], history: ['History', History], imports: ['Imports', Imports], health: ['Health', Health] };

function Header({ server, view }) {
  const [leave, busy, error] = useWork(logOut);
  return html`<header>
    <a class="skip" href="#content" onClick=${(e) => { e.preventDefault(); document.querySelector('main h1').focus(); }}>To the content</a>
    <strong class="name">fastddl</strong>
    <nav aria-label="Views">${Object.entries(views).map(
      ([name, [title]]) => html`<a href=${'#/' + name} key=${name} aria-current=${name === view ? 'page' : undefined}>${title}</a>`,
    )}</nav>
    <span class="who"><span>${server.user}</span> <${ThemeSwitch} />
      <button type="button" onClick=${leave} disabled=${busy} title=${error ? error.message : undefined}>Log out</button></span>
  </header>`;
}

// Connection is always there, so that screen readers notice what it says.
function Connection({ trouble }) {
  return html`<div role="status" class=${trouble ? 'trouble' : 'hidden'}>${trouble}</div>`;
}

function App() {
  const server = useServer();
  const [view, argument] = useRoute();
  const known = views[view] ? view : 'jobs';
  const main = useRef(null);
  const first = useRef(true);
  const address = known + '/' + (argument || '');
  useEffect(() => {
    if (server.user) readGrants(); // they may have changed
  }, [address]);
  useLayoutEffect(() => { // before anything can be typed
    document.title = server.user ? (known === 'jobs' && argument ? 'Job ' + argument : views[known][0]) + ' - fastddl' : 'Log in - fastddl';
    if (!server.user) return;
    if (!first.current) {
      const heading = main.current && main.current.querySelector('h1');
      if (heading) heading.focus(); // screen readers read the new view from its heading on
      scrollTo(0, 0);
    }
    first.current = false;
  }, [address, server.user]);
  if (server.user === undefined) return html`<${Connection} trouble=${server.trouble} /><main><p class="loading">Loading ...</p></main>`;
  if (server.user === null) return html`<${Connection} trouble=${server.trouble} /><${LogIn} ended=${server.ended} />`;
  const View = known === 'jobs' && argument ? Job : views[known][1];
  return html`<${Header} server=${server} view=${known} />
    <${Connection} trouble=${server.trouble} />
    <main ref=${main} id="content"><${View} key=${address} argument=${argument} /></main>
    <footer>fastddl ${server.version}</footer>`;
}

document.getElementById('app').textContent = '';
render(html`<${App} />`, document.getElementById('app'));
resume();
