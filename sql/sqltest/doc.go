// Package sqltest opens sessions on a layer of package sql without a server, for
// tests. They are the layer's clients: the metadata lock waits for them, and index
// builds take them for the foreground.
package sqltest
