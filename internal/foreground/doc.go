// Package foreground measures what clients ask of a server, so that work in the
// background can give way to it.
package foreground
