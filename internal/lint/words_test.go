package lint

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// bannedPhrases must not stand in comments, names and documents, and what to
// write instead. CONTRIBUTING.md has the page of style that they belong to.
var bannedPhrases = []struct{ phrase, instead string }{
	{`told of`, "say who returns, logs or reports it"},
	{`tell(s|ing)? of`, "say returns, names, logs or reports"},
	{`in vain`, "name what fails, or what is no longer needed"},
	{`what( else)? there (is|was|are|were)`, "name the thing"},
	{`c[ao]m(e|es|ing) to`, "say reaches, ends, becomes or adds up to; an outcome is a result"},
	{`comes? of`, "say result"},
	{`by and by`, "say in pages, in steps or later"},
	{`put(s|ting)? (themselves|itself) aside`, "background work yields"},
	{`g[ia]v(e|es|ing|en) way`, "say yield"},
	{`whatever`, "say any, all or regardless of"},
	{`whoever`, "name who: a client, a node, a caller"},
	{`nobody`, "say no client, no node, unauthenticated"},
	{`at the (most|least)`, "say at most, at least"},
	{`as good as gone`, "say what is left to be done, and how that can fail"},
	{`tak(e|es|ing) it badly`, "say panics or fails"},
}

var bannedPhrase = func() *regexp.Regexp {
	phrases := make([]string, len(bannedPhrases))
	for i, b := range bannedPhrases {
		phrases[i] = b.phrase
	}
	return regexp.MustCompile(`(?i)\b(` + strings.Join(phrases, "|") + `)\b`)
}()

// adviceFor returns what to write instead of a banned phrase.
func adviceFor(phrase string) string {
	for _, b := range bannedPhrases {
		if regexp.MustCompile(`(?i)^(` + b.phrase + `)$`).MatchString(phrase) {
			return b.instead
		}
	}
	return ""
}

// bannedIn returns the banned phrases of a text. They may run over the end of a line.
func bannedIn(text string) []string {
	return bannedPhrase.FindAllString(strings.Join(strings.Fields(text), " "), -1)
}

// wordsOf returns the words of a name in camel case.
func wordsOf(name string) string {
	var words strings.Builder
	lower := false
	for _, r := range name {
		if r == '_' || (lower && unicode.IsUpper(r)) {
			words.WriteByte(' ')
		}
		lower = !unicode.IsUpper(r)
		if r != '_' {
			words.WriteRune(unicode.ToLower(r))
		}
	}
	return words.String()
}

var (
	codeBlock = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
)

// prose returns a document without its code, which quotes programs.
func prose(document string) string {
	return codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(document, ""), "code")
}

func TestBannedPhrases(t *testing.T) {
	for _, f := range allSources(t) {
		if f.path == "internal/lint/words_test.go" {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, phrase := range bannedIn(group.Text()) {
				t.Errorf("%s:%d: a comment says %q: %s", f.path, f.line(group), phrase, adviceFor(phrase))
			}
		}
		forEachName(f, func(name *ast.Ident) {
			for _, phrase := range bannedIn(wordsOf(name.Name)) {
				t.Errorf("%s:%d: the name %s says %q: %s", f.path, f.line(name), name.Name, phrase, adviceFor(phrase))
			}
		})
	}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		documents, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, document := range documents {
			name, err := filepath.Rel(root, document)
			require.NoError(t, err)
			text, err := os.ReadFile(document)
			require.NoError(t, err)
			for _, phrase := range bannedIn(prose(string(text))) {
				t.Errorf("%s says %q: %s", name, phrase, adviceFor(phrase))
			}
		}
	}
}

// forEachName calls fn with every name of a file but those that follow a point,
// which are of another package or declared elsewhere.
func forEachName(f sourceFile, fn func(*ast.Ident)) {
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			ast.Inspect(n.X, visit)
			return false
		case *ast.Ident:
			fn(n)
		}
		return true
	}
	ast.Inspect(f.ast, visit)
}

// TestBannedPhrasesAreFound is the test of the rule itself.
func TestBannedPhrasesAreFound(t *testing.T) {
	for _, b := range bannedPhrases {
		require.NotEmpty(t, b.instead, b.phrase)
	}
	for text, phrase := range map[string]string{
		"the caller is told of the error":            "told of",
		"what else\nthere is":                        "what else there is",
		"the job has come\n\tto its end":             "come to",
		"Workers put themselves aside":               "put themselves aside",
		wordsOf("gaveWay"):                           "gave way",
		wordsOf("TestHoldsWhateverTheMeterSays"):     "whatever",
		wordsOf("errNobody"):                         "nobody",
		wordsOf("nobody_asked"):                      "nobody",
		prose("```\nnobody\n```\nfour at the most."): "at the most",
	} {
		require.Equal(t, []string{phrase}, bannedIn(text), text)
		require.NotEmpty(t, adviceFor(phrase), phrase)
	}
	for _, text := range []string{
		"returns the outcome", "told off", "it tells off", "the way it gives", "at most four", "the most recent", "there is what",
		prose("the metric `governor_giving_way`, the user `nobody`"), prose("```\nnobody\n```\n"), wordsOf("somebodyElse"),
	} {
		require.Empty(t, bannedIn(text), text)
	}
}
