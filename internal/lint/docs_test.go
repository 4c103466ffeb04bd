package lint

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const (
	// maxSentence is in words.
	maxSentence = 40
	// maxDocumentLine is in characters; rows of tables may be longer.
	maxDocumentLine = 200
	// maxDocumentWords is for README.md and the pages of docs, without decisions and generated tables. The last 2,000 are
	// docs/scale.md, what builds cost beyond the machines at hand, the links of the proof in docs/correctness.md, and the build worker.
	maxDocumentWords = 30000
)

// unfinished are pages that do not keep to the rules of TestDocumentsAreReadable yet.
var unfinished []string

// document is a page in Markdown.
type document struct {
	path string // slash-separated, from the root
	text string
}

// documents returns README.md, the pages of docs, and the decisions.
func documents(t *testing.T) []document {
	return documentsOf(t, "README.md", "docs/*.md", "docs/decisions/*.md")
}

func documentsOf(t *testing.T, patterns ...string) (docs []document) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		for _, file := range found {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			docs = append(docs, document{path: path.Join(path.Dir(pattern), filepath.Base(file)), text: string(text)})
		}
	}
	require.NotEmpty(t, docs)
	return docs
}

// namedTest is a test named in a document, as `package.Test`.
var namedTest = regexp.MustCompile("`([a-z]+)\\.([Tt]est[A-Z][A-Za-z0-9]*)`")

// TestDocumentsNameTestsThatExist keeps the list of what guards what true.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	exists := make(map[string]bool)
	for _, f := range sources(t) {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				exists[path.Base(f.pkg)+"."+fn.Name.Name] = true
			}
		}
	}
	named := 0
	for _, d := range documents(t) {
		for _, m := range namedTest.FindAllStringSubmatch(d.text, -1) {
			named++
			if name := m[1] + "." + m[2]; !exists[name] {
				t.Errorf("%s names %s, which does not exist", d.path, name)
			}
		}
	}
	require.Positive(t, named)
}

// invariantRow is a row of the index in docs/correctness.md: a link to the section, a sentence, a test, a mutation with its place.
var invariantRow = regexp.MustCompile("(?m)^\\| \\[[^\\]|]+\\]\\(#[^)|]+\\) \\| [^|]+ \\| `([^`|]+)` \\| \\[([^\\]|]+)\\]\\(mutations\\.md#([^)|]+)\\) \\|$")

// TestIndexOfInvariantsIsTrue: the test in each row of the index catches the mutation, by the generated list.
func TestIndexOfInvariantsIsTrue(t *testing.T) {
	pages := make(map[string]string)
	for _, d := range documents(t) {
		pages[d.path] = d.text
	}
	_, index, _ := strings.Cut(pages["docs/correctness.md"], "| invariant |")
	index, _, _ = strings.Cut(index, "\n\n")
	rows := invariantRow.FindAllStringSubmatch(index, -1)
	require.Len(t, rows, strings.Count(index, "\n|")-1, "rows of another form")
	require.NotEmpty(t, rows)
	for _, m := range rows {
		test, mutation, place := m[1], m[2], m[3]
		var caught string
		for _, section := range strings.Split(pages["docs/mutations.md"], "\n## ")[1:] {
			if heading, body, _ := strings.Cut(section, "\n"); slices.Contains(headings("## "+heading), place) {
				_, caught, _ = strings.Cut(body, "| "+mutation+" |")
				caught, _, _ = strings.Cut(caught, "\n")
			}
		}
		require.Regexp(t, "`"+regexp.QuoteMeta(test)+"[`/]", caught, "docs/mutations.md#%s on %q", place, mutation)
	}
}

// localLink is a link to a file of the project, to a heading, or both.
var localLink = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)

func TestDocumentsLinkToWhatExists(t *testing.T) {
	anchors := make(map[string][]string)
	docs := append(documents(t), documentsOf(t, "CONTRIBUTING.md", "CHANGELOG.md")...)
	for _, d := range docs {
		anchors[d.path] = headings(d.text)
	}
	for _, d := range docs {
		for _, m := range localLink.FindAllStringSubmatch(d.text, -1) {
			target := d.path
			if m[1] != "" {
				target = path.Join(path.Dir(d.path), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s: %v", d.path, m[1], err)
			} else if known, ours := anchors[target]; m[2] != "" && ours && !slices.Contains(known, m[2]) {
				t.Errorf("%s links to %s, which has no heading #%s", d.path, target, m[2])
			}
		}
	}
}

// TestDocumentsAreReadable bounds sentences, lines and the whole.
func TestDocumentsAreReadable(t *testing.T) {
	total := 0
	for _, d := range documents(t) {
		if slices.Contains(unfinished, d.path) {
			continue
		}
		for _, s := range sentences(d.text) {
			if n := countWords(s); n > maxSentence {
				t.Errorf("%s: a sentence has %d words, the most is %d: %s", d.path, n, maxSentence, s)
			}
		}
		for i, line := range strings.Split(d.text, "\n") {
			if n := utf8.RuneCountInString(line); n > maxDocumentLine && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d has %d characters, the most is %d outside tables", d.path, i+1, n, maxDocumentLine)
			}
		}
		if !strings.HasPrefix(d.path, "docs/decisions/") {
			total += countWords(withoutGenerated(d.text))
		}
	}
	require.LessOrEqual(t, total, maxDocumentWords, "words of README.md and docs: what was tried and rejected goes to docs/decisions")
}

var (
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	listItem   = regexp.MustCompile(`^\s*([*-]|[0-9]+\.) `)
	// sentenceEnd is punctuation, what closes behind it, and the beginning of the next sentence.
	sentenceEnd = regexp.MustCompile("([.!?][\"')`*]*)\\s+([A-Z0-9`\"'(\\[*])")
	generated   = regexp.MustCompile(`(?s)<!-- [a-z-]+:begin.*?<!-- [a-z-]+:end -->|\| invariant \| mutation \| caught by \|\n(?:\|[^\n]*\n)*`)
)

// sentences returns the sentences outside tables, headings and code. An item of a list is one at least.
func sentences(text string) (all []string) {
	var paragraph []string
	flush := func() {
		joined := linkTarget.ReplaceAllString(strings.Join(paragraph, " "), "]")
		all = append(all, strings.Split(sentenceEnd.ReplaceAllString(joined, "$1\n$2"), "\n")...)
		paragraph = nil
	}
	code := false
	for _, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence || code || line == "" || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "<!--"):
			flush()
		case listItem.MatchString(line):
			flush()
			paragraph = append(paragraph, strings.TrimSpace(line))
		default:
			paragraph = append(paragraph, strings.TrimSpace(line))
		}
		code = code != fence
	}
	flush()
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// countWords counts what has a letter or a digit between spaces.
func countWords(text string) (n int) {
	for _, word := range strings.Fields(text) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// withoutGenerated returns a page without the tables that programs write.
func withoutGenerated(text string) string { return generated.ReplaceAllString(text, "") }

// headings returns the anchors of a page, as GitHub makes them.
func headings(text string) (anchors []string) {
	code := false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if code || !strings.HasPrefix(line, "#") {
			continue
		}
		title := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		anchors = append(anchors, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return r
			}
			return -1
		}, title))
	}
	return anchors
}

// TestDocumentRulesSeeWhatTheyShould has a page with each kind of line.
func TestDocumentRulesSeeWhatTheyShould(t *testing.T) {
	const page = "# The title, `x_y`\n\nOne sentence. A second one (see\n[here](b.md#c)). `Code` begins\nthe third, v1.2 of it!\n\n* an item\n  goes on\n1. another. And more\n\n" +
		"```\n# no heading. No sentence.\n```\n| a row. With | cells. |\n\n<!-- x:begin -->\n| t |\n<!-- x:end -->\n| invariant | mutation | caught by |\n|---|---|---|\n| I1 | a | b |\nlast\n"
	require.Equal(t, []string{"One sentence.", "A second one (see [here]).", "`Code` begins the third, v1.2 of it!", "* an item goes on", "1. another.", "And more", "last"},
		sentences(page))
	require.Equal(t, []string{"the-title-x_y"}, headings(page))
	require.Equal(t, 3, countWords("| a `b`, | -> 3 |"))
	rest := withoutGenerated(page)
	require.NotContains(t, rest, "| t |")
	require.NotContains(t, rest, "I1")
	require.Contains(t, rest, "a row")
	require.Contains(t, rest, "last")
}
