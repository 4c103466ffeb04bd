// The log-in, with an account of the database.

import { html, useLayoutEffect, useRef, useState } from './view.js';
import { logIn } from './api.js';
import { useWork } from './hooks.js';
import { Field, Problem } from './ui.js';
import { ThemeSwitch } from './theme.js';

export function LogIn({ ended }) {
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  const [run, busy, error] = useWork(() => logIn(user, password));
  const first = useRef(null);
  useLayoutEffect(() => first.current.querySelector('input').focus(), []);
  const send = (event) => {
    event.preventDefault();
    if (!busy) run();
  };
  return html`<main class="login">
    <form ref=${first} onSubmit=${send}>
      <h1>fastddl</h1>
      <p>${ended ? 'The log-in has ended: the account has changed, the server was restarted, or it was not used.' : 'Log in with an account of the database. You see and do what it may.'}</p>
      <${Field} label="User" name="user" autocomplete="username" autocapitalize="none" spellcheck=${false} required value=${user} onInput=${(e) => setUser(e.target.value)} />
      <${Field} label="Password" name="password" type="password" autocomplete="current-password" value=${password} onInput=${(e) => setPassword(e.target.value)} />
      <${Problem} error=${error} />
      <div class="buttons"><button type="submit" class="primary" disabled=${busy}>Log in</button> <${ThemeSwitch} /></div>
    </form>
  </main>`;
}
