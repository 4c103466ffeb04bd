// Package errs joins errors without hiding the first one, and makes errors of
// panics.
package errs
