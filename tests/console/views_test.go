package console

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// axe is axe-core, which looks for what people cannot use.
//
//go:embed testdata/axe.min.js
var axe string

// finding is one of axe's.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// sound requires that axe has no serious finding in what the page shows.
func (p *tab) sound(name string) {
	p.t.Helper()
	var found []finding
	wait := func(params *runtime.EvaluateParams) *runtime.EvaluateParams { return params.WithAwaitPromise(true) }
	p.run(chromedp.Evaluate(axe+"; 0", nil), chromedp.Evaluate(
		"axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical'))", &found, wait))
	for _, f := range found {
		var nodes []string
		for _, n := range f.Nodes {
			nodes = append(nodes, n.HTML+"\n"+n.FailureSummary)
		}
		p.t.Errorf("%s: %s: %s (%s)\n%s", name, f.Impact, f.Help, f.ID, strings.Join(nodes, "\n"))
	}
}

// colours sets what the system prefers.
func (p *tab) colours(scheme string) {
	p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

func (p *tab) ground() (colour string) {
	p.look("getComputedStyle(document.body).backgroundColor", &colour)
	return colour
}

// testViews looks at each view in light and dark, by axe, and on a page as wide as a phone.
func (s *site) testViews(p *tab) {
	release := s.hold(p.t, "shop.orders")
	defer release()
	each := func(name string) {
		p.until("document.querySelector('main h1') === document.querySelector('main').querySelector('*:not(form)')") // nothing is above the heading
		p.colours("light")
		p.sound(name + ", light")
		p.colours("dark")
		p.width(360, 740)
		p.until("innerWidth === 360")
		var wide string
		p.look(`document.documentElement.scrollWidth <= 360 ? '' : [...document.querySelectorAll('body *')].filter(
			(e) => e.getBoundingClientRect().right > 360).map((e) => e.outerHTML.slice(0, 200)).join('\n')`, &wide)
		require.Empty(p.t, wide, "%s is wider than a phone", name)
		p.sound(name + ", dark and narrow")
		p.width(1200, 800)
		p.until("innerWidth === 1200")
	}
	each("log-in")
	p.logIn("dba", "secret")
	p.shows("h1", "Jobs")
	job := p.submit("shop", "CREATE INDEX looked_at ON orders (note, customer, id)", "manual")
	p.shows("[aria-label='Transactions in the way'] tbody", "root")
	each("a job that waits")
	p.button("Alter ...")
	each("the form to alter")
	p.click("dialog button", "Close")
	for view, shown := range map[string]string{"Jobs": job, "Waits": job, "History": "synced", "Imports": "finished", "Health": "fastddl_ddl_window"} {
		p.view(view)
		p.shows("td", shown)
		each(view)
	}
	p.view("Run")
	p.fill("statement", "CREATE UNIQUE INDEX another ON orders (note)")
	p.button("Explain")
	p.shows(".verdict", "fits")
	each("Run")
	p.colours("light")
	light := p.ground()
	p.colours("dark")
	require.NotEqual(p.t, light, p.ground(), "dark is as light")
	p.choose("select.theme", "light")
	require.Equal(p.t, light, p.ground(), "what was chosen is stronger than the system")
	p.run(chromedp.Reload())
	p.shows("h1", "Explain")
	require.Equal(p.t, light, p.ground(), "what was chosen is kept")
	release()
	p.look(fmt.Sprintf("location.hash = '#/jobs/%s'", job), nil)
	p.shows(".wait", "No statement reads the index")
	p.button("Publish")
	p.state("synced")
	p.shows("[aria-label='Stages']", "merge")
	each("a job that has ended")
}

// testPictures writes the pictures of the documentation, if it is asked to.
func (s *site) testPictures(p *tab) {
	dir := os.Getenv("FASTDDL_SCREENSHOTS")
	if dir == "" {
		p.t.Skip("FASTDDL_SCREENSHOTS is not set")
	}
	picture := func(name string) {
		var png []byte
		p.run(chromedp.CaptureScreenshot(&png))
		require.NoError(p.t, os.WriteFile(filepath.Join(dir, "console-"+name+".png"), png, 0o644))
	}
	s.exec(p.t, "CREATE TABLE shop.events (id BIGINT PRIMARY KEY AUTO_INCREMENT, customer BIGINT, at DATETIME, note VARCHAR(64))",
		"INSERT INTO shop.events (customer, at, note) VALUES (1, NOW(), UUID()), (2, NOW(), UUID()), (3, NOW(), UUID()), (4, NOW(), UUID())")
	for range 16 {
		s.exec(p.t, "INSERT INTO shop.events (customer, at, note) SELECT FLOOR(RAND() * 100000), NOW(), UUID() FROM shop.events")
	}
	// Statements of a client, whose latency is drawn.
	ctx, stop := context.WithCancel(p.t.Context())
	var client sync.WaitGroup
	client.Go(func() {
		for id := 0; ctx.Err() == nil; id = (id + 1) % 1000 {
			if rows, err := s.root.QueryContext(ctx, "SELECT note FROM shop.events WHERE id = ?", id); err == nil {
				_ = rows.Close()
			}
		}
	})
	defer client.Wait()
	defer stop()
	p.logIn("dba", "secret")
	p.width(1100, 760)
	p.view("Run")
	p.fill("schema", "shop")
	p.fill("statement", "CREATE INDEX by_note ON events (note, customer)")
	p.choose("[name=publish]", "manual")
	p.fill("thread", "1")
	p.button("Explain")
	p.shows(".verdict", "fits")
	picture("explain")
	job := p.submit("shop", "CREATE INDEX by_note ON events (note, customer)", "manual")
	_, err := s.root.Exec("ADMIN ALTER DDL JOBS " + job + " MAX_WRITE_SPEED = 1048576")
	require.NoError(p.t, err)
	p.until("document.querySelectorAll('.chart strong').length === 3 && [...document.querySelectorAll('.chart strong')].every((e) => e.innerText !== 'no values yet')")
	p.until("Number(document.querySelector('[role=progressbar]').getAttribute('aria-valuenow')) >= 45 || document.querySelector('main').innerText.includes('No statement reads')")
	picture("job")
	p.colours("dark")
	picture("dark")
	p.colours("light")
	p.width(360, 740)
	picture("phone")
	p.button("Publish")
	p.state("synced")
}
