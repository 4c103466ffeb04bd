package servertest

import (
	"errors"
	"os"
	"sync"
)

// Template is a folder that a process fills once and copies for each test: bootstrapping a
// store takes a second of two processors, copying a bootstrapped one a few milliseconds. The
// zero value is ready for use; its methods may be called concurrently.
type Template struct {
	fill sync.Once
	dir  string
	err  error
}

// CopyTo copies the template's contents to dir, which it creates if necessary and which
// must have no file of the template's. The first call has fill make the contents, in an
// empty folder; if that fails, CopyTo returns its error then and ever after.
func (t *Template) CopyTo(dir string, fill func(dir string) error) error {
	t.fill.Do(func() {
		if t.dir, t.err = os.MkdirTemp("", "fastddl-template-"); t.err != nil {
			return
		}
		t.err = errors.New("the template was not filled") // if fill ends its test
		t.err = fill(t.dir)
	})
	if t.err != nil {
		return t.err
	}
	if err := os.CopyFS(dir, os.DirFS(t.dir)); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// Remove removes the template's own folder; it belongs at the end of TestMain.
func (t *Template) Remove() error {
	if t.dir == "" {
		return nil
	}
	return os.RemoveAll(t.dir)
}
