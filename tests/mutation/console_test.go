package mutation

// Mutations of the console: by which names it is reached, and what may run in it.

var console = []mutation{
	{
		invariant: "console", breaks: "the page is shown by a name that another site has given this server",
		file:   "server/statusguard.go",
		old:    "console.Serves(r) && g.named(r.Host)",
		new:    "console.Serves(r)",
		caught: "server.TestConsoleIsOpenByNamesOfTheServer",
		shows:  `evil.example`,
	},
	{
		invariant: "console", breaks: "the page runs scripts that are written into it",
		file:   "console/console.go",
		old:    `"default-src 'self'; base-uri`,
		new:    `"default-src 'self' 'unsafe-inline'; base-uri`,
		caught: "console.TestFilesAreServedUnderAStrictPolicy",
		shows:  `should not contain "unsafe"`,
	},
}
