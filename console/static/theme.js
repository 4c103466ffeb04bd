// Light or dark: as the system is, or as the person has chosen on this browser.

import { html, useState } from './view.js';

const key = 'fastddl-theme';
const watchers = new Set();

const saved = () => {
  try {
    return localStorage.getItem(key) || '';
  } catch (error) {
    return ''; // a browser may keep nothing
  }
};

function apply(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  watchers.forEach((watcher) => watcher());
}

apply(saved());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => watchers.forEach((watcher) => watcher()));

// onTheme calls fn when colours have changed, until the function that it returns is called.
export function onTheme(fn) {
  watchers.add(fn);
  return () => watchers.delete(fn);
}

// colour returns what a variable of the style sheet is now, as a canvas takes it.
export function colour(name) {
  const probe = document.createElement('span');
  probe.style.color = 'var(' + name + ')';
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

export function ThemeSwitch() {
  const [theme, set] = useState(saved);
  const choose = (event) => {
    const chosen = event.target.value;
    set(chosen);
    try {
      if (chosen) localStorage.setItem(key, chosen);
      else localStorage.removeItem(key);
    } catch (error) {
      // it holds until the page is left
    }
    apply(chosen);
  };
  return html`<select class="theme" aria-label="Colours" value=${theme} onChange=${choose}>
    <option value="">System colours</option><option value="light">Light</option><option value="dark">Dark</option>
  </select>`;
}
