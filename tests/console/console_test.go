package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// TestConsole is one server and one browser for all that a person does.
func TestConsole(t *testing.T) {
	findBrowser(t)
	s := open(t)
	browser := browse(t)
	url := "http://" + s.node.Status + "/"
	pages := func(name string, test func(p *tab)) {
		t.Run(name, func(t *testing.T) { test(newTab(t, browser, url)) })
	}
	t.Run("files", func(t *testing.T) { testFiles(t, url) })
	pages("log-in", testLogIn)
	pages("path", s.testPath)
	pages("alter", s.testAlter)
	pages("import", s.testImport)
	pages("rights", func(p *tab) { s.testRights(p, newTab(p.t, browser, strings.Replace(url, "127.0.0.1", "localhost", 1))) })
	pages("names", s.testNames)
	pages("connection", testConnection)
	pages("keyboard", testKeyboard)
	pages("views", s.testViews)
	pages("pictures", s.testPictures)
}

// testFiles: the files need no log-in, but a name of this server.
func testFiles(t *testing.T, url string) {
	for host, want := range map[string]int{"": http.StatusOK, "evil.example": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, "%s", body)
		if want == http.StatusOK {
			require.Equal(t, "/console/", resp.Request.URL.Path)
		}
	}
}

// testLogIn: a wrong password is refused with code and text, and a log-in is kept by a new look at the page.
func testLogIn(p *tab) {
	p.logIn("dba", "wrong")
	p.shows("[role=alert]", "Error 1045")
	p.shows("[role=alert]", "Access denied")
	p.logIn("dba", "secret")
	p.shows("h1", "Jobs")
	p.run(chromedp.Reload())
	p.shows("h1", "Jobs")
	p.button("Log out")
	p.shows("form", "Password")
	p.run(chromedp.Reload())
	p.shows("form", "Password")
}

// testPath explains an index, builds it, pauses and resumes the build, ends the transaction in its way, publishes it, and finds it in the history;
// another one is cancelled.
func (s *site) testPath(p *tab) {
	t := p.t
	p.logIn("dba", "secret")
	p.view("Run")
	p.fill("schema", "shop")
	p.fill("statement", "CREATE INDEX by_nothing ON orders (nothing)")
	p.button("Explain")
	p.shows("[role=alert]", "Error 1072")
	p.fill("statement", "CREATE UNIQUE INDEX by_customer ON orders (customer)")
	p.button("Explain")
	p.shows(".verdict", "fits")
	p.shows("tr.warned", "Duplicate entry")
	p.fill("statement", "CREATE INDEX by_customer ON orders (customer)")
	p.button("Explain")
	p.shows(".verdict.ok", "fits")

	release := s.hold(t, "shop.orders")
	defer release()
	job := p.submit("shop", "CREATE INDEX by_customer ON orders (customer)", "manual")
	p.shows("pre", "CREATE INDEX by_customer")
	p.shows("[aria-label='Transactions in the way'] tbody", "root")
	p.until("document.querySelector('main [role=progressbar]').getAttribute('aria-valuenow') !== null")
	p.button("Pause")
	p.state("paused")
	p.button("Resume")
	p.not("h1 .badge", "paused")

	p.view("Waits")
	p.shows("[aria-label='Transactions in the way'] tbody", "root")
	p.shows("[aria-label='Jobs in the order of the queue'] tbody", job)
	var connection string
	p.look("document.querySelector(\"td[data-label='Connection']\").innerText", &connection)
	p.button("End connection " + connection)
	p.shows("dialog", "rolled back")
	p.click("dialog button[type=submit]", "End connection "+connection)
	p.shows("main", "No transaction is in the way.")

	p.click("td a", job)
	p.shows(".wait", "No statement reads the index until it is published.")
	p.until("document.querySelector('[role=progressbar]').getAttribute('aria-valuenow') === '100' || document.querySelector('h1 .badge').innerText === 'running'")
	p.button("Publish")
	p.state("synced")
	p.until("document.querySelector('main [role=progressbar]').getAttribute('aria-valuenow') === '100'")
	p.shows("[aria-label='Stages']", "scan")
	p.shows("[aria-label='Commands']", "PAUSE DDL JOBS")
	s.exec(t, "ADMIN CHECK INDEX shop.orders by_customer")
	p.view("History")
	p.shows("td[data-label='Job']", job)

	cancelled := p.submit("shop", "CREATE INDEX by_note ON orders (note)", "manual")
	require.NotEqual(t, job, cancelled)
	p.button("Cancel ...")
	p.shows("dialog", "The table stays as it is.")
	p.click("dialog button[type=submit]", "Cancel job "+cancelled)
	p.until("/cancelled|rollback done/.test(document.querySelector('h1 .badge').innerText)")
	var n int
	require.NoError(t, s.root.QueryRow("SELECT COUNT(*) FROM information_schema.statistics WHERE index_name = 'by_note'").Scan(&n))
	require.Zero(t, n)
}

// testAlter changes what was changed in the form, and shows what the server refuses in the dialog.
func (s *site) testAlter(p *tab) {
	p.logIn("dba", "secret")
	p.submit("shop", "CREATE INDEX by_both ON orders (customer, note)", "manual")
	p.shows(".wait", "No statement reads the index until it is published.")
	p.button("Alter ...")
	p.fill("window", "25:00-26:00")
	p.click("dialog button[type=submit]", "Alter")
	p.shows("dialog [role=alert]", "Error 1231")
	p.fill("window", "")
	p.fill("thread", "3")
	p.fill("max_write_speed", "20MiB")
	p.click("dialog button[type=submit]", "Alter")
	p.until("!document.querySelector('dialog')")
	p.shows(".facts", "threads = 3")
	p.button("Publish")
	p.state("synced")
}

func (s *site) testImport(p *tab) {
	p.logIn("dba", "secret")
	p.view("Imports")
	p.button("Import files ...")
	p.fill("schema", "shop")
	p.fill("table", "loaded")
	p.fill("source", "/etc/passwd")
	p.click("dialog button[type=submit]", "Import")
	p.shows("dialog [role=alert]", "Error")
	p.fill("source", s.files+"/loaded.csv")
	p.click("dialog button[type=submit]", "Import")
	p.until("!document.querySelector('dialog')")
	p.shows("td[data-label='State']", "finished")
	p.shows("td[data-label='Rows']", "3")
}

// testRights: an account with rights on one table sees jobs of that table, and is told why it may not do the rest. What is missing on any table is a button that is disabled.
func (s *site) testRights(p, other *tab) {
	other.logIn("dba", "secret")
	job := other.submit("shop", "CREATE INDEX hidden ON orders (note)", "manual")
	p.logIn("clerk", "small")
	own := p.submit("shop", "CREATE INDEX by_amount ON stock (amount)", "manual")
	p.shows(".wait", "No statement reads the index")
	p.view("Jobs")
	p.shows("td[data-label='Job']", own)
	p.not("main", "orders")
	p.look(fmt.Sprintf("location.hash = '#/jobs/%s'", job), nil)
	p.shows("[role=alert]", "the account has no privilege on its table")
	p.view("Run")
	p.fill("schema", "shop")
	p.fill("statement", "CREATE INDEX i ON orders (note)")
	p.button("Run")
	p.shows("[role=alert]", "Error 1142")
	p.view("Imports")
	p.barred("Import files ...", "SELECT", "INSERT, UPDATE, DELETE on any table")
	p.view("Health")
	p.shows("main", "Not shown to this account: it needs the privilege PROCESS.")
	p.barred("Change fastddl_ddl_governor", "", "SYSTEM_VARIABLES_ADMIN")
	p.look(fmt.Sprintf("location.hash = '#/jobs/%s'", own), nil)
	p.button("Publish")
	p.state("synced")
	p.button("Log out")
	s.testReader(p, job)
	other.button("Publish")
	other.state("synced")
}

// testReader: an account that may read a table sees its job with buttons that it may not use, until it is given the privilege.
func (s *site) testReader(p *tab, job string) {
	p.logIn("reader", "small")
	p.view("Jobs")
	p.click("td a", job)
	for _, button := range []string{"Publish", "Pause", "Alter ...", "Cancel ..."} {
		p.barred(button, "", "ALTER or INDEX on shop.orders")
	}
	p.shows("main", "This account lacks ALTER or INDEX on shop.orders.")
	p.sound("a job that the account may not command")
	p.view("Run")
	p.barred("Run", "", "ALTER or INDEX on any table")
	s.exec(p.t, "GRANT INDEX ON `sho_`.* TO reader")
	p.view("Jobs")
	p.click("td a", job)
	p.button("Pause")
	p.state("paused")
	p.button("Resume")
	p.not("h1 .badge", "paused")
}

// barred waits for a button that is disabled, and whose title names what is missing, without what the account has.
func (p *tab) barred(name, has, lacks string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll('main button')].some((e) => (e.getAttribute('aria-label') || e.innerText.trim()) === %q && e.disabled &&
		e.title.includes(%q) && (%q === '' || !e.title.includes(%q)))`, name, lacks, has, has))
}

// testNames: names that look like markup are shown as text.
func (s *site) testNames(p *tab) {
	const name = "<img src=x onerror=alert(1)>"
	s.exec(p.t, "CREATE TABLE shop.`"+name+"` (id BIGINT PRIMARY KEY, `<b>b</b>` BIGINT)")
	p.logIn("dba", "secret")
	job := p.submit("shop", "CREATE INDEX `<script>alert(2)</script>` ON `"+name+"` (`<b>b</b>`)", "manual")
	p.shows("h1", name)
	p.shows("pre", "<script>alert(2)</script>")
	for _, view := range []string{"Jobs", "Waits"} {
		p.view(view)
		p.shows("td", name)
	}
	p.click("td a", job)
	p.button("Publish")
	p.state("synced")
	p.view("History")
	p.shows("td", name)
	p.until("!document.querySelector('main img, main script, main b')")
}

// testConnection: a lost connection is shown, and heals by itself, also that of events.
func testConnection(p *tab) {
	p.logIn("dba", "secret")
	p.submit("shop", "CREATE INDEX healed ON orders (note, customer)", "manual")
	p.shows(".wait", "No statement reads the index")
	offline := func(lost bool) {
		conditions := []*network.Conditions{{DownloadThroughput: -1, UploadThroughput: -1}}
		p.run(network.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := network.EmulateNetworkConditionsByRule(lost, conditions).Do(ctx)
			return err
		}))
	}
	offline(true)
	p.shows("[role=status]", "The server does not answer")
	offline(false)
	p.until("!document.querySelector('.trouble')")
	p.button("Publish")
	p.state("synced")
}

// testKeyboard: everything is reached by Tab with a focus that is seen, Escape closes a dialog and gives the focus back, Enter sends a form.
func testKeyboard(p *tab) {
	p.logIn("dba", "secret")
	p.view("Imports")
	p.until("document.activeElement.tagName === 'H1'") // from where a screen reader reads on
	p.run(chromedp.Reload())
	p.shows("h1", "Imports")
	var seen []string
	p.key(kb.Tab)
	for range 30 {
		var text string
		p.look("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText.trim()", &text)
		seen = append(seen, text)
		if text == "Import files ..." {
			break
		}
		p.key(kb.Tab)
	}
	for _, name := range []string{"To the content", "Jobs", "Run", "Waits", "History", "Imports", "Health", "Colours", "Log out", "Import files ..."} {
		require.Contains(p.t, seen, name)
	}
	p.until("getComputedStyle(document.activeElement).outlineStyle === 'solid'")
	p.key(kb.Enter)
	p.until("document.activeElement === document.querySelector('dialog[open] [name=schema]')")
	p.key(kb.Escape)
	p.until("!document.querySelector('dialog') && document.activeElement.innerText === 'Import files ...'")
}
