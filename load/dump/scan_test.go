package dump

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// all returns the statements of a script.
func all(t *testing.T, r io.Reader) (texts []string) {
	t.Helper()
	s := newScanner(r)
	for {
		st, err := s.next()
		if atEnd(err) {
			return texts
		}
		require.NoError(t, err)
		texts = append(texts, string(withoutLeadingComments(st.text)))
	}
}

// TestScannerSplitsAsTheClientDoes shows what a delimiter may stand in without ending a statement.
func TestScannerSplitsAsTheClientDoes(t *testing.T) {
	for script, want := range map[string][]string{
		"a;b;":                                   {"a", "b"},
		"a; b":                                   {"a", "b"},
		" ;;\n; ":                                nil,
		"-- a;\n# b;\n/* c; */ d;":               {"d"},
		"a--b;c":                                 {"a--b", "c"},
		"a -- ;\nb;":                             {"a -- ;\nb"},
		"'a;';\"b;\";`c;`;":                      {"'a;'", "\"b;\"", "`c;`"},
		`'a\';';'b'';';` + "`c\\`;":              {`'a\';'`, `'b'';'`, "`c\\`"},
		"/*!50003 CREATE x ';*/' */;d;":          {"/*!50003 CREATE x ';*/' */", "d"},
		"delimiter ;;\na;b;;\nDELIMITER ;\nc;d;": {"a;b", "c", "d"},
		"-- x\nDELIMITER //\na/b//":              {"a/b"},
		"delimiters;":                            {"delimiters"},
		"/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump\na;": {"a"},
		"": nil,
	} {
		require.Equal(t, want, all(t, strings.NewReader(script)), script)
	}
}

func TestScannerCountsLines(t *testing.T) {
	s := newScanner(strings.NewReader("-- one\n\na 'x\ny';\n\nb;"))
	for _, want := range []int64{3, 6} {
		st, err := s.next()
		require.NoError(t, err)
		require.Equal(t, want, st.line)
	}
}

// TestScannerRefusesWhatHasNoEnd: a dump that was cut off is no dump.
func TestScannerRefusesWhatHasNoEnd(t *testing.T) {
	for script, want := range map[string]string{
		"a;\n'b;": "line 2: the file ends inside of a string", "`a;": "a string", "/* a;": "line 1: the file ends inside of a comment", "/*! a;": "a comment", `'a\`: "a string",
	} {
		s := newScanner(strings.NewReader(script))
		var err error
		for err == nil {
			_, err = s.next()
		}
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, script)
		require.ErrorContains(t, err, want, script)
	}
	s := newScanner(io.MultiReader(strings.NewReader("a;b"), iotest.ErrReader(io.ErrClosedPipe)))
	_, err := s.next()
	require.NoError(t, err)
	_, err = s.next()
	require.ErrorIs(t, err, io.ErrClosedPipe, "what is read before an error is no statement")
}

// TestScannerWithAnyBlocks: statements do not depend on how much of the file a read returns.
func TestScannerWithAnyBlocks(t *testing.T) {
	rng := randtest.Rand(t)
	pieces := []string{"a", "'", `\`, `"`, "`", ";", "\n", " ", "--", "-- ", "#", "/*", "*/", "/*!", "delimiter ;;\n", "DELIMITER ;\n", "é", "/"}
	for range 300 {
		var script strings.Builder
		for range rng.IntN(30) {
			script.WriteString(pieces[rng.IntN(len(pieces))])
		}
		whole, wholeErr := texts(strings.NewReader(script.String()))
		bytewise, err := texts(iotest.OneByteReader(strings.NewReader(script.String())))
		require.Equal(t, whole, bytewise, script.String())
		require.Equal(t, wholeErr == nil, err == nil, script.String())
		require.LessOrEqual(t, len(strings.Join(whole, "")), script.Len())
	}
}

func texts(r io.Reader) (found []string, err error) {
	s := newScanner(r)
	for {
		st, err := s.next()
		if atEnd(err) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		found = append(found, string(st.text))
	}
}
