// Package errs combines errors without hiding the first one, makes one line of them and errors of panics,
// and recognises those of full disks.
package errs
