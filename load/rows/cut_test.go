package rows

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// A file that is cut has the rows of the whole one, each once, with any text in its fields and for every way to
// write CSV. Cuts inside quotes, behind escapes and between \r and \n are what this looks for.
func TestCutFilesHaveTheSameRows(t *testing.T) {
	r := rand.New(rand.NewPCG(randtest.Seed(t), 1))
	cut := 0
	for end := time.Now().Add(randtest.Time(t, 2*time.Second, time.Minute)); time.Now().Before(end); {
		format := randomFormat(r)
		text := format.file(r)
		s := statement{create: "create table t (a varchar(1000), b varchar(1000), c varchar(1000))", files: map[string]string{"t.csv": text}, plan: format.apply}
		want, wantErr := s.tryRead(t)
		s.chunkBytes = int64(1 + r.IntN(60))
		source := s.open(t)
		got, err := readChunks(t, source, NewIDs(State{}))
		if wantErr != nil {
			require.Error(t, err, "%+v\n%q", format, text)
			continue
		}
		require.NoError(t, err, "%+v\n%q\n%+v", format, text, source.Chunks())
		require.Equal(t, want, got, "%+v\n%q\n%+v", format, text, source.Chunks())
		if len(source.Chunks()) > 1 {
			cut++
		}
	}
	require.Positive(t, cut, "no file was cut")
}

// csvFormat is a way to write CSV.
type csvFormat struct {
	separator, quote, escape, terminator string
	skip                                 int
}

func randomFormat(r *rand.Rand) csvFormat {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	return csvFormat{
		separator: pick(",", "|", "\t", "ab", "||", "|+|"), quote: pick(`"`, `"`, "'", ""), escape: pick(`\`, `\`, "", "!"),
		terminator: pick("", "", "\n", "\r\n", "|\n", "\n\n", "xy", "|+|\n"), skip: r.IntN(3),
	}
}

func (f csvFormat) apply(p *importer.Plan) {
	p.FieldsTerminatedBy, p.FieldsEnclosedBy, p.FieldsEscapedBy, p.LinesTerminatedBy = f.separator, f.quote, f.escape, f.terminator
	p.IgnoreLines = uint64(f.skip)
}

// file makes a file; the parser may refuse what is in it.
func (f csvFormat) file(r *rand.Rand) string {
	var b strings.Builder
	newline := f.terminator
	if newline == "" {
		newline = []string{"\n", "\r\n", "\r"}[r.IntN(3)]
	}
	quoted := r.IntN(3) > 0
	for row := range f.skip + r.IntN(60) {
		if row < f.skip {
			b.WriteString(`head "er` + newline)
			continue
		}
		for field := range 3 {
			if field > 0 {
				b.WriteString(f.separator)
			}
			if f.quote != "" && quoted && r.IntN(3) > 0 {
				b.WriteString(f.quote + f.field(r, true) + f.quote)
			} else {
				b.WriteString(f.field(r, false))
			}
		}
		switch r.IntN(30) {
		case 0:
			b.WriteString(newline)
		case 1:
			b.WriteString(newline + "  ")
		}
		b.WriteString(newline)
	}
	text := b.String()
	if r.IntN(3) == 0 {
		text = strings.TrimSuffix(text, newline)
	}
	return text
}

func (f csvFormat) field(r *rand.Rand, quoted bool) string {
	var b strings.Builder
	for range r.IntN(6) {
		switch n := r.IntN(12); {
		case n < 5:
			fmt.Fprint(&b, r.IntN(1000))
		case n == 5:
			b.WriteString([]string{"é", "ü", "语", " ", "a", "x", "|", "+"}[r.IntN(8)])
		case n == 6 && f.escape != "":
			b.WriteString(f.escape + []string{"n", f.escape, f.quote + "q", "\n", "\r", "N", "0", f.terminator + "t"}[r.IntN(8)])
		case !quoted:
		case n == 7:
			b.WriteString(f.quote + f.quote)
		case n == 8:
			b.WriteString(f.separator)
		case n == 9:
			b.WriteString(f.terminator)
		case n == 10:
			b.WriteString("\r\n")
		default:
			b.WriteString("\n")
		}
	}
	return b.String()
}

// A quoted field of 200 KB with line ends in it, where the file is to be cut, stays one field.
func TestLongQuotedFieldAtACut(t *testing.T) {
	long := strings.Repeat("line\n", 40<<10)
	text := "a,b,c\n\"" + long + "\",y,z\nd,e,f\ng,h,i\n"
	s := statement{create: "create table t (a longtext, b varchar(9), c varchar(9))", files: map[string]string{"t.csv": text}, chunkBytes: 50 << 10}
	require.Equal(t, []string{"a|b|c", long + "|y|z", "d|e|f", "g|h|i"}, s.read(t))
}

// FuzzCuts looks for cuts that a parser of the whole file does not take for ends of rows.
func FuzzCuts(f *testing.F) {
	f.Add("a,b\n\"c\nd\",e\n", `"`, `\`, "", int64(3))
	f.Fuzz(func(t *testing.T, text, quote, escape, terminator string, size int64) {
		if len(quote) > 1 || len(escape) > 1 || size <= 0 || size > 1<<20 || quote == "," || escape == "," || strings.Contains(terminator, ",") {
			t.Skip()
		}
		format := csvFormat{separator: ",", quote: quote, escape: escape, terminator: terminator}
		s := statement{create: "create table t (a longtext, b longtext)", files: map[string]string{"t.csv": text}, plan: format.apply}
		want, err := s.tryRead(t)
		if err != nil {
			t.Skip()
		}
		s.chunkBytes = size
		require.Equal(t, want, s.read(t))
	})
}
