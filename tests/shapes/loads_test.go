package shapes

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/stretchr/testify/require"
	"github.com/xitongsys/parquet-go/writer"

	"fastddl/internal/randtest"
	"fastddl/load/rows"
)

// TestRandomLoads compares the pairs that package load/rows makes of files with those that INSERT of the same values
// has written: records and entries of random tables, byte for byte, from CSV, SQL and Parquet.
func TestRandomLoads(t *testing.T) {
	p := newRounds(t, true)
	var l loads
	each(t, 1000, 3*slice, func(t *testing.T, seed uint64) { l.play(t, p, seed) })
	t.Logf("%+v", l)
}

// loads counts what was compared.
type loads struct{ tables, invalid, rows, pairs int }

func (l *loads) play(t *testing.T, p *rounds, seed uint64) {
	p.t = t
	d := &round{rounds: p, r: rand.New(rand.NewPCG(seed, 2))}
	defer func() {
		if t.Failed() {
			randtest.Print(t, seed)
			t.Log(strings.Join(d.history, ";\n"))
		}
	}()
	d.reset()
	tbl := newRandomTable(d.r)
	// The bits of a shard are random.
	tbl.suffix = strings.Replace(tbl.suffix, " shard_row_id_bits = 4", "", 1)
	d.history = []string{tbl.create(), tbl.indexes()}
	p.ours.run("set allow_auto_random_explicit_insert = on")
	if p.both(d.history[0]) != nil || p.both(d.history[1]) != nil {
		l.invalid++
		return
	}
	for range 1 + d.r.IntN(3) {
		statement := tbl.insert()
		d.history = append(d.history, statement)
		if p.theirs.try(statement) != nil {
			l.invalid++
			return
		}
	}
	info := p.ours.table()
	names, texts := d.texts(info)
	if len(texts) == 0 {
		return
	}
	statement := "insert into t (" + strings.Join(names, ",") + ") values " + strings.Join(literals(texts), ",")
	d.history = append(d.history, statement)
	if p.ours.try(statement) != nil {
		l.invalid++
		return
	}
	want := make(map[string]string)
	for _, id := range physicalIDs(info) {
		for k, v := range p.read(p.now(), tablecodec.EncodeTablePrefix(id)) {
			want[fmt.Sprintf("%x", k)] = fmt.Sprintf("%x", v)
		}
	}
	for _, format := range []string{importer.DataFormatCSV, importer.DataFormatSQL, importer.DataFormatParquet} {
		require.Empty(t, differences(want, d.load(info, names, texts, format)), format)
	}
	l.tables++
	l.rows += len(texts)
	l.pairs += len(want)
}

// texts returns the values of theirs, as a client sees them: nil for NULL.
func (d *round) texts(info *model.TableInfo) (names []string, texts [][]*string) {
	for _, c := range info.Columns {
		if !c.IsGenerated() && !c.Hidden {
			names = append(names, c.Name.O)
		}
	}
	results, err := d.theirs.s.Execute(context.Background(), "select "+strings.Join(names, ",")+" from t")
	require.NoError(d.t, err)
	defer func() { require.NoError(d.t, results[0].Close()) }()
	drained, err := sqlexec.DrainRecordSet(context.Background(), results[0], 1024)
	require.NoError(d.t, err)
	for _, row := range drained {
		var values []*string
		for i, f := range results[0].Fields() {
			v := row.GetDatum(i, &f.Column.FieldType)
			if v.IsNull() {
				values = append(values, nil)
				continue
			}
			var text string
			if f.Column.GetType() == mysql.TypeBit {
				text = string(v.GetBytes())
			} else {
				text, err = v.ToString()
				require.NoError(d.t, err)
			}
			values = append(values, &text)
		}
		texts = append(texts, values)
	}
	return names, texts
}

// literals are the rows as SQL has them.
func literals(texts [][]*string) (out []string) {
	escape := strings.NewReplacer(`\`, `\\`, "'", "''", "\n", `\n`, "\x00", `\0`)
	for _, row := range texts {
		var values []string
		for _, v := range row {
			switch {
			case v == nil:
				values = append(values, "NULL")
			case !utf8.ValidString(*v):
				values = append(values, "x'"+hex.EncodeToString([]byte(*v))+"'")
			default:
				values = append(values, "'"+escape.Replace(*v)+"'")
			}
		}
		out = append(out, "("+strings.Join(values, ",")+")")
	}
	return out
}

// load returns the pairs that load/rows makes of a file of the rows.
func (d *round) load(info *model.TableInfo, names []string, texts [][]*string, format string) map[string]string {
	path := filepath.Join(d.t.(*testing.T).TempDir(), "t."+format)
	require.NoError(d.t, os.WriteFile(path, file(d.t, names, texts, format), 0o600))
	tbl, ok := d.layer.Domain().InfoSchema().TableByID(context.Background(), info.ID)
	require.True(d.t, ok)
	charset := "utf8mb4"
	vars := d.ours.s.GetSessionVars()
	plan := &importer.Plan{
		DBName: d.ours.db, TableInfo: info, DesiredTableInfo: info, Path: path, Format: format,
		FieldNullDef: []string{`\N`}, LineFieldsInfo: plannercore.LineFieldsInfo{FieldsTerminatedBy: ",", FieldsEnclosedBy: `"`, FieldsEscapedBy: `\`},
		SQLMode: vars.SQLMode, Charset: &charset, InImportInto: true, DataSourceType: importer.DataSourceTypeFile, ThreadCnt: 1,
		ImportantSysVars: map[string]string{"time_zone": "UTC", "tidb_row_format_version": "2"},
	}
	columns := " (" + strings.Join(names, ",") + ")"
	if format == importer.DataFormatParquet {
		columns = "" // by name
	}
	args, err := importer.ASTArgsFromStmt("import into t" + columns + " from '" + path + "'")
	require.NoError(d.t, err)
	c, err := importer.NewLoadDataController(plan, tbl, args)
	require.NoError(d.t, err)
	ctx := context.Background()
	require.NoError(d.t, c.InitDataFiles(ctx))
	source, err := rows.Open(ctx, c, info)
	require.NoError(d.t, err)
	ids := rows.NewIDs(rows.State{})
	got := make(map[string]string)
	for _, chunk := range source.Chunks() {
		r, err := source.NewReader(ctx, chunk, ids)
		require.NoError(d.t, err)
		for {
			pairs, err := r.Next(ctx)
			if err == io.EOF {
				break
			}
			require.NoError(d.t, err, format)
			for _, pair := range pairs {
				key := fmt.Sprintf("%x", pair.Key)
				require.NotContains(d.t, got, key, "%s: a key twice", format)
				got[key] = fmt.Sprintf("%x", pair.Val)
			}
		}
		require.NoError(d.t, r.Close())
	}
	return got
}

// file writes rows in a format.
func file(t testing.TB, names []string, texts [][]*string, format string) []byte {
	var b bytes.Buffer
	switch format {
	case importer.DataFormatSQL:
		b.WriteString("INSERT INTO `t` VALUES\n" + strings.Join(literals(texts), ",\n") + ";\n")
	case importer.DataFormatCSV:
		escape := strings.NewReplacer(`\`, `\\`, `"`, `""`)
		for _, row := range texts {
			for i, v := range row {
				if i > 0 {
					b.WriteByte(',')
				}
				if v == nil {
					b.WriteString(`\N`)
				} else {
					b.WriteString(`"` + escape.Replace(*v) + `"`)
				}
			}
			b.WriteByte('\n')
		}
	default:
		var fields []string
		for _, name := range names {
			fields = append(fields, "name="+name+", type=BYTE_ARRAY, repetitiontype=OPTIONAL")
		}
		w, err := writer.NewCSVWriterFromWriter(fields, &b, 1)
		require.NoError(t, err)
		for _, row := range texts {
			require.NoError(t, w.WriteString(row))
		}
		require.NoError(t, w.WriteStop())
	}
	return b.Bytes()
}
