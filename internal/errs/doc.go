// Package errs joins errors without hiding the first one, makes errors of panics,
// and recognises those of full disks.
package errs
