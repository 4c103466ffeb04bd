package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// Prefix begins the paths of the page's files.
const Prefix = "/console/"

//go:embed static
var static embed.FS

// policy allows what comes from this server, and nothing that is written into a page.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// types are those of the files; the machine's own table may say otherwise.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// file is one of the page's.
type file struct {
	content []byte
	kind    string
	// tag is the ETag.
	tag string
}

// Handler answers GET and HEAD of the page's files, and leads from / to the page.
func Handler() (http.Handler, error) {
	files, err := load(static)
	if err != nil {
		return nil, fmt.Errorf("read the files of the console: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, files) }), nil
}

// Serves says that a request is one for Handler.
func Serves(r *http.Request) bool {
	return r.URL.Path == "/" || r.URL.Path == strings.TrimSuffix(Prefix, "/") || strings.HasPrefix(r.URL.Path, Prefix)
}

// load reads the files below static by their names there.
func load(from fs.FS) (map[string]file, error) {
	files := make(map[string]file)
	err := fs.WalkDir(from, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		kind := types[path.Ext(name)]
		if kind == "" {
			if kind = mime.TypeByExtension(path.Ext(name)); kind == "" {
				kind = "text/plain; charset=utf-8" // licences
			}
		}
		sum := sha256.Sum256(content)
		files[strings.TrimPrefix(name, "static/")] = file{content, kind, `"` + hex.EncodeToString(sum[:12]) + `"`}
		return nil
	})
	return files, err
}

func serve(w http.ResponseWriter, r *http.Request, files map[string]file) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "the console is read by GET; requests that change something go to the API", http.StatusMethodNotAllowed)
		return
	}
	name, found := strings.CutPrefix(r.URL.Path, Prefix)
	if !found {
		http.Redirect(w, r, Prefix, http.StatusFound)
		return
	}
	if name == "" {
		name = "index.html"
	}
	f, found := files[name]
	if !found {
		http.Error(w, "the console has no such file", http.StatusNotFound)
		return
	}
	header.Set("Content-Type", f.kind)
	header.Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}
