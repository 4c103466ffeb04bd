// The view library: Preact with its hooks, and htm for templates.

import { h, render } from './vendor/preact.js';
import htm from './vendor/htm.js';

export { render };
export const html = htm.bind(h);
export { useCallback, useEffect, useLayoutEffect, useRef, useState } from './vendor/preact-hooks.js';
