package console

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func get(t *testing.T, method, target string, change func(r *http.Request)) *http.Response {
	t.Helper()
	handler, err := Handler()
	require.NoError(t, err)
	r := httptest.NewRequest(method, target, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result()
}

func TestFilesAreServedUnderAStrictPolicy(t *testing.T) {
	for target, want := range map[string]int{
		"/console/": 200, "/console/main.js": 200, "/console/vendor/uplot.js": 200, "/": 302, "/console": 302, "/console/none.js": 404,
		"/console/../doc.go": 404, "/console/vendor": 404,
	} {
		resp := get(t, "GET", target, nil)
		require.Equal(t, want, resp.StatusCode, target)
		require.Equal(t, policy, resp.Header.Get("Content-Security-Policy"), target)
		require.Equal(t, "DENY", resp.Header.Get("X-Frame-Options"), target)
		require.Equal(t, "no-referrer", resp.Header.Get("Referrer-Policy"), target)
		require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"), target)
	}
	require.Equal(t, "/console/", get(t, "GET", "/", nil).Header.Get("Location"))
	require.Equal(t, http.StatusMethodNotAllowed, get(t, "POST", "/console/", nil).StatusCode)
	require.NotContains(t, policy, "unsafe")
}

// A browser that has a file gets it again only when it has changed.
func TestFilesHaveTags(t *testing.T) {
	resp := get(t, "GET", "/console/main.js", nil)
	require.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
	require.Equal(t, "text/javascript; charset=utf-8", resp.Header.Get("Content-Type"))
	again := get(t, "GET", "/console/main.js", func(r *http.Request) { r.Header.Set("If-None-Match", resp.Header.Get("ETag")) })
	require.Equal(t, http.StatusNotModified, again.StatusCode)
}

var (
	// elsewhere is what a page may not load or be made of, raw what puts a value in as markup.
	elsewhere = regexp.MustCompile(`(src|href)=["']?(https?:)?//|@import|url\(`)
	raw       = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|dangerouslySetInnerHTML`)
	inline    = regexp.MustCompile(`<script(\s+type=["']?module["']?)?\s*>|<style|\sstyle=["']|\son[a-z]+=["']`)
	imported  = regexp.MustCompile(`(?m)from '\./([^']+)'`)
)

// Nothing is loaded from elsewhere, nothing is inline, no value is put in as markup, and each module that is imported is there.
func TestPageIsWholeAndPlain(t *testing.T) {
	files, err := load(static)
	require.NoError(t, err)
	reached := map[string]bool{}
	for name, f := range files {
		if strings.HasPrefix(name, "vendor/") {
			continue
		}
		text := string(f.content)
		require.NotRegexp(t, elsewhere, text, name)
		require.NotRegexp(t, raw, text, name)
		if strings.HasSuffix(name, ".html") {
			require.NotRegexp(t, inline, text, name)
		}
		require.LessOrEqual(t, strings.Count(text, "\n"), 400, "%s is to be split by what its parts hold", name)
		for _, m := range imported.FindAllStringSubmatch(text, -1) {
			require.Contains(t, files, m[1], "imported by %s", name)
			reached[m[1]] = true
		}
	}
	for name := range files {
		if path.Ext(name) == ".js" && !strings.HasPrefix(name, "vendor/") && name != "main.js" {
			require.True(t, reached[name], "%s is imported by no module", name)
		}
	}
}

// What is not ours has its licence beside it.
func TestVendoredFilesHaveLicences(t *testing.T) {
	licences, err := fs.Glob(static, "static/vendor/LICENSE-*")
	require.NoError(t, err)
	require.Len(t, licences, 3)
}
