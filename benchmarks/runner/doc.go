// Package runner measures systems against each other on the machine it runs on.
//
// One server runs at a time. In each round every server is started with the
// table it was loaded with, warmed up, and measured with each of its systems;
// rounds alternate over servers, and the next round begins with another one, so
// that what the machine does meanwhile falls on all of them. Each
// measurement is saved at once: a run that is broken off keeps what it has.
package runner
