// Package console is a page for those who run index builds: /console/ on the status port.
//
// The page is a client of package api, and has no other way to data: it logs in as an account of the database and shows and does what that
// account may. Its files (static) are in the binary, as they are in the repository, and load nothing from elsewhere. There is no build step:
// browsers load the modules as they were written. What is not ours is in static/vendor, each with its licence.
//
// # Invariants
//
//   - The files are the same for everybody and show no data, so that they need no log-in.
//   - The policy of the answers allows scripts, styles and requests of this server only, none of them inline. So a value that a page would
//     take for markup runs nothing; besides, all values are put in as text.
//   - No other site can show the page in a frame, or load its files.
//   - A browser asks whether a file has changed each time, so that a page is never made of files of two releases.
package console
