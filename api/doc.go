// Package api is HTTP/JSON for those who run index builds: /api/v1 on the status port.
//
// # Each request is SQL
//
// A request is executed as statements of the account that has logged in, by [Sessions], which are those of MySQL clients. The package has
// no other way to data: what the account may not do by SQL it may not do here, and what it does is checked, logged and listed as SQL.
// README of the routes is the document that [API] serves at openapi.json: it is made from the table of routes (routes.go).
//
// # Who is let in
//
//   - A log-in is taken over TLS, or from this machine. Failures slow down the next ones ([attempts]).
//   - Basic authentication names the account with each request. POST session gives a cookie, and a token that requests which change anything
//     send in the header X-Fastddl-Token: a page of another site has neither.
//   - A request that changes anything has a JSON body, of that content type.
//   - A log-in holds for one client address, and one certificate if the client has one. It ends with the server, when it is not used, and
//     when the account is not what it was: a changed password, a lock, a dropped account. That is looked up for each request, and
//     read again after a change that the server has heard of, or a second.
//   - Privileges are looked up by each statement.
//
// Host and Origin are checked before, by package server, for all of the status port.
//
// # Invariants
//
//   - A session belongs to one log-in; that by which jobs are read for followers, to those of one account in one state. Texts of users run in sessions of their own, which are not used again.
//   - Followers of a job share one reading a second for each account. Their log-ins are checked with it.
//   - A request reads as much of the history as it answers with: one about a job reads no others.
//   - Requests at the same time share one reading of their account.
//   - No account takes all sessions: its requests and the statements that wait for its jobs are bounded, and all that it follows takes one.
//   - Bodies, answers, sessions, followers and log-ins are bounded. A client that does not read is cut off.
//   - No password is returned, and a cookie and its token only to the client that logs in. None of them is logged.
package api
