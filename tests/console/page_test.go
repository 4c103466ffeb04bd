package console

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// patience is how long a page may take to show something. It is for a machine that is slow and busy.
const patience = 2 * time.Minute

// browse starts a browser for all pages of a test.
func browse(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(findBrowser(t)), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(patience))
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, closed := chromedp.NewContext(allocated, chromedp.WithErrorf(t.Logf))
	t.Cleanup(closed)
	require.NoError(t, chromedp.Run(ctx))
	return ctx
}

// tab is a page.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu sync.Mutex
	// wrong are errors of the page: exceptions, what its policy has refused, dialogs of scripts.
	wrong []string
}

func newTab(t *testing.T, browser context.Context, url string) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser)
	p := &tab{t: t, ctx: ctx, url: url}
	chromedp.ListenTarget(ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.wrong = append(p.wrong, e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			p.wrong = append(p.wrong, "a script has opened a dialog: "+e.Message)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork { // which has answers such as 401
				p.wrong = append(p.wrong, e.Entry.Text)
			}
		}
	})
	t.Cleanup(func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Empty(t, p.wrong, "errors of the page")
	})
	require.NoError(t, chromedp.Run(ctx)) // not in the time of an action: the tab ends with the context of its first
	// Tabs in the background are seen, too. A log-in is that of the host's name.
	p.run(page.BringToFront(), emulation.SetFocusEmulationEnabled(true), network.ClearBrowserCookies())
	p.width(1200, 800)
	p.run(chromedp.Navigate(url))
	return p
}

// run executes actions.
func (p *tab) run(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, end := context.WithTimeout(p.ctx, patience)
	defer end()
	require.NoError(p.t, chromedp.Run(ctx, actions...))
}

func (p *tab) width(width, height int64) { p.run(chromedp.EmulateViewport(width, height)) }

// look evaluates an expression into what is not nil.
func (p *tab) look(expression string, into any) {
	p.t.Helper()
	if into == nil {
		into = new(json.RawMessage)
	}
	p.run(chromedp.Evaluate(expression, into))
}

// until waits for an expression to be true.
func (p *tab) until(expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var met bool
		p.look("Boolean("+expression+")", &met)
		if met {
			return
		}
		if time.Now().After(end) {
			var text string
			p.look("document.body.innerText + '\\n\\nfocus: ' + document.activeElement.outerHTML.slice(0, 300)", &text)
			require.FailNow(p.t, "the page does not show what was waited for", "%s\n%s", expression, text)
		}
	}
}

// shows waits for a text in what a selector finds.
func (p *tab) shows(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))", selector, text))
}

// not waits until there is no such text.
func (p *tab) not(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("![...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))", selector, text))
}

// find is an expression for the visible element with a text, or an accessible name, in the dialog if one is open.
func find(selector, text string) string {
	return fmt.Sprintf(`[...(document.querySelector('dialog[open]') || document).querySelectorAll(%q)].find(
		(e) => (e.getAttribute('aria-label') || e.innerText.trim()) === %q && !e.disabled && e.getClientRects().length > 0)`, selector, text)
}

// click clicks with the mouse on the button or link with a text. What the page shows above it may just arrive, and move it away from under
// the mouse: then it clicks again.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	element := find(selector, text)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		p.until(element)
		var at []float64
		p.look("(() => { const e = "+element+"; if (!e) return []; window.missed = true; "+
			"e.addEventListener('click', () => { window.missed = false; }, { capture: true, once: true }); "+
			"e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()", &at)
		if len(at) == 0 {
			continue
		}
		p.run(chromedp.MouseClickXY(at[0], at[1]))
		var missed bool
		if p.look("window.missed === true", &missed); !missed {
			return
		}
	}
	require.FailNow(p.t, "the mouse does not meet what is to be clicked", "%s %q", selector, text)
}

func (p *tab) button(text string) { p.t.Helper(); p.click("button", text) }

func (p *tab) view(name string) {
	p.t.Helper()
	p.click("nav a", name)
	p.until(fmt.Sprintf("document.querySelector('nav a[aria-current]')?.innerText === %q", name))
}

// fill types into the field of a name.
func (p *tab) fill(name, text string) {
	p.t.Helper()
	field := fmt.Sprintf(`(document.querySelector('dialog[open]') || document).querySelector('[name=%q]')`, name)
	p.until(field)
	p.look(fmt.Sprintf("(() => { const e = %s; e.focus(); if (e.select) e.select(); })()", field), nil)
	p.run(chromedp.KeyEvent(kb.Delete))
	if text != "" {
		p.run(chromedp.KeyEvent(text))
	}
	p.until(fmt.Sprintf("%s.value === %q", field, text))
}

// choose selects an option of a list, as the keyboard would.
func (p *tab) choose(selector, value string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.querySelector(%q)", selector))
	p.look(fmt.Sprintf("(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event('change', { bubbles: true })); })()", selector, value), nil)
	p.until(fmt.Sprintf("document.querySelector(%q).value === %q", selector, value))
}

func (p *tab) key(keys string) { p.t.Helper(); p.run(chromedp.KeyEvent(keys)) }

// logIn logs in by the keyboard.
func (p *tab) logIn(user, password string) {
	p.t.Helper()
	p.fill("user", user)
	p.fill("password", password)
	p.key(kb.Enter)
}

// submit fills in the form, runs it, and returns the job's number.
func (p *tab) submit(schema, statement, publish string) (job string) {
	p.t.Helper()
	p.view("Run")
	p.fill("schema", schema)
	p.fill("statement", statement)
	p.choose("[name=publish]", publish)
	p.button("Run")
	p.until("/^#.jobs.\\d+$/.test(location.hash) && document.querySelector('h1 .badge')")
	var hash string
	p.look("location.hash", &hash)
	return strings.TrimPrefix(hash, "#/jobs/")
}

// state waits until the job that is looked at has a state.
func (p *tab) state(state string) { p.t.Helper(); p.shows("h1 .badge", state) }
