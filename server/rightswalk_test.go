package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	goast "go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/executor"
	tidbparser "github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/sessiontxn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/internal/asttree"
)

// statementRights is what one statement of the walk needs.
type statementRights struct {
	sql string
	// needs are the rights that MySQL's manual asks for, or TiDB's documentation where the statement is TiDB's own: "DROP b1" is
	// that on the schema b1, "SUPER" that on all schemas. The statement needs all of them.
	needs string
	// unasked are those of the needs that TiDB does not ask for and we leave so, and why says why.
	unasked, why string
	// refused says why the statement fails for all users, if it does.
	refused string
	// silent says why a denied statement has no error, if it has none: it changes nothing then.
	silent string
}

// deniedCodes are the errors that refuse a statement for want of a right.
var deniedCodes = []uint16{1044, 1045, 1095, 1142, 1143, 1227, 1290, 1345, 1356, 1370, 1396, 1410, 3530, 8121}

func isDenied(err error) bool {
	var sqlErr *mysql.MySQLError
	if errors.As(err, &sqlErr) {
		return slices.Contains(deniedCodes, sqlErr.Number) || strings.Contains(sqlErr.Message, "command denied")
	}
	var tidbErr *terror.Error
	return errors.As(err, &tidbErr) && slices.Contains(deniedCodes, uint16(terror.ToSQLError(tidbErr).Code))
}

// rightsWalk executes statements as users with chosen rights.
type rightsWalk struct {
	*testing.T
	server *Server
	root   *sql.DB
	users  map[string]*walkUser // by their rights
}

// walkUser is a user with chosen rights, in a session and over a connection.
type walkUser struct {
	name    string
	session *guardedSession
	db      *sql.DB
}

// startWalk starts a server with the walk's schemas and with a user for each of the lists of rights.
func startWalk(t *testing.T, rights [][]string) *rightsWalk {
	s := start(t, testConfig(t.TempDir()))
	w := &rightsWalk{T: t, server: s, root: connect(t, s), users: make(map[string]*walkUser)}
	exec(t, w.root, walkFixture...)
	var names []string
	grants := make(map[string][]string) // users by what they get
	for _, list := range rights {
		if w.users[rightsKey(list)] != nil {
			continue
		}
		u := &walkUser{name: fmt.Sprintf("u%d", len(w.users))}
		w.users[rightsKey(list)] = u
		names = append(names, u.name)
		for _, right := range list {
			object := "*.*"
			if words := strings.Fields(right); strings.ToLower(words[len(words)-1]) == words[len(words)-1] {
				right, object = strings.Join(words[:len(words)-1], " "), words[len(words)-1]+".*"
			}
			grant := "GRANT " + right + " ON " + object + " TO "
			grants[grant] = append(grants[grant], u.name)
		}
	}
	exec(t, w.root, "CREATE USER "+strings.Join(names, ", "))
	for grant, users := range grants {
		exec(t, w.root, grant+strings.Join(users, ", "))
	}
	return w
}

func rightsKey(rights []string) string {
	return strings.Join(slices.Sorted(slices.Values(rights)), ", ")
}

// user returns the user who has exactly the given rights.
func (w *rightsWalk) user(rights []string) *walkUser {
	u := w.users[rightsKey(rights)]
	require.NotNil(w, u, rights)
	if u.session != nil {
		return u
	}
	id, err := strconv.ParseUint(u.name[1:], 10, 64)
	require.NoError(w, err)
	opened, err := w.server.node.driver.OpenCtx(100000+id, 0, 46, "", nil, nil)
	require.NoError(w, err)
	w.Cleanup(func() { _ = opened.Close() })
	u.session = opened.Session.(*guardedSession)
	require.True(w, u.session.AuthWithoutVerification(&auth.UserIdentity{Username: u.name, Hostname: "127.0.0.1", AuthUsername: u.name, AuthHostname: "%"}))
	u.db = connectAs(w.T, w.server, u.name, "")
	return u
}

// compile does all that a statement does before it is executed: which is where nearly all rights are asked for.
func (u *walkUser) compile(t testing.TB, text string) error {
	ctx := context.Background()
	stmts, err := u.session.Parse(ctx, text)
	require.NoError(t, err, text)
	require.Len(t, stmts, 1, text)
	if err := u.session.check(stmts[0]); err != nil {
		return err
	}
	defer u.session.Session.RollbackTxn(ctx)
	if err := u.session.PrepareTxnCtx(ctx); err != nil {
		return err
	}
	if err := executor.ResetContextOfStmt(u.session.Session, stmts[0]); err != nil {
		return err
	}
	if err := sessiontxn.GetTxnManager(u.session.Session).OnStmtStart(ctx, stmts[0]); err != nil {
		return err
	}
	_, err = (&executor.Compiler{Ctx: u.session.Session}).Compile(ctx, stmts[0])
	return err
}

// denied returns the error by which the user may not execute a statement, which has been executed if there is none.
func (u *walkUser) denied(t testing.TB, text string) error {
	if err := u.compile(t, text); isDenied(err) {
		return err
	}
	rows, err := u.db.Query(text)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}

func splitRights(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ", ")
}

// asked returns the rights that a statement really needs.
func (r statementRights) asked() []string {
	unasked := splitRights(r.unasked)
	return slices.DeleteFunc(splitRights(r.needs), func(n string) bool { return slices.Contains(unasked, n) })
}

// tooFew returns rights that are too few for a statement, by what they lack.
func (r statementRights) tooFew() map[string][]string {
	lists := make(map[string][]string)
	elsewhere := false
	for _, need := range r.asked() {
		lists["all but "+need] = slices.DeleteFunc(splitRights(r.needs), func(n string) bool { return n == need })
		elsewhere = elsewhere || !strings.HasSuffix(need, " a1")
	}
	if elsewhere {
		lists["all of a1"] = []string{"ALL a1"}
	}
	return lists
}

// walk tries one statement as users that have the rights that it needs, and as users that lack one of them.
func (w *rightsWalk) walk(r statementRights) {
	if r.refused != "" {
		_, err := w.root.Exec(r.sql)
		assert.Error(w, err, "%s is executed: %s", r.sql, r.refused)
		return
	}
	require.Equal(w, r.why == "", r.unasked == "", r.sql)
	if err := w.user(r.asked()).compile(w, r.sql); isDenied(err) {
		w.Errorf("%s\n  is denied to who may %q: %v", r.sql, r.asked(), err)
	}
	tooFew := r.tooFew()
	for _, name := range slices.Sorted(maps.Keys(tooFew)) {
		err := w.user(tooFew[name]).denied(w, r.sql)
		if r.silent != "" {
			require.NoError(w, err, r.sql)
			var rows int
			require.NoError(w, w.root.QueryRow("SELECT COUNT(*) FROM b1.t").Scan(&rows))
			require.Equal(w, 1, rows, "%s is executed by who has %s", r.sql, name)
		} else if !isDenied(err) {
			w.Errorf("%s\n  is not denied to who has %s: %v", r.sql, name, err)
		}
	}
}

// astSource returns the parsed source of TiDB's syntax trees.
func astSource(t testing.TB) []*goast.File {
	accept := reflect.ValueOf((*ast.AdminStmt).Accept).Pointer()
	file, _ := runtime.FuncForPC(accept).FileLine(accept)
	names, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, names, "the source of TiDB's parser")
	var files []*goast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, parsed)
	}
	return files
}

// kind is a kind of statements: a type of TiDB's syntax trees, or what a type that does many things does.
type kind struct {
	group string // of a constant, by the field that has it; "" for types
	value int
}

// kindGroups are the types of the constants, and the first of those without one, by which a statement of one type does different
// things.
var kindGroups = map[string]string{"AlterTableType": "alter", "AdminStmtType": "admin", "ShowNone": "show"}

// grammar returns the kinds of statements that TiDB's parser knows.
func grammar(t testing.TB) map[string]kind {
	kinds := make(map[string]kind)
	for _, file := range astSource(t) {
		for _, decl := range file.Decls {
			gen, ok := decl.(*goast.GenDecl)
			if !ok {
				continue
			}
			group, first := "", 0
			for i, spec := range gen.Specs {
				switch s := spec.(type) {
				case *goast.TypeSpec:
					if isStatement(s) {
						kinds[s.Name.Name] = kind{}
					}
				case *goast.ValueSpec:
					name := s.Names[0].Name
					if typed, ok := s.Type.(*goast.Ident); ok && kindGroups[typed.Name] != "" {
						group, first = kindGroups[typed.Name], 1
					} else if kindGroups[name] != "" {
						group, first = kindGroups[name], 0
					} else if len(s.Values) > 0 {
						group = ""
					}
					if group != "" && name != "ShowNone" && !strings.HasPrefix(name, "__DEPRECATED") {
						kinds[name] = kind{group, i + first}
					}
				}
			}
		}
	}
	return kinds
}

// isStatement reports whether a type is that of a statement: it embeds what makes it one.
func isStatement(s *goast.TypeSpec) bool {
	structure, ok := s.Type.(*goast.StructType)
	if !ok || !s.Name.IsExported() {
		return false
	}
	return slices.ContainsFunc(structure.Fields.List, func(field *goast.Field) bool {
		embedded, ok := field.Type.(*goast.Ident)
		return ok && len(field.Names) == 0 && slices.Contains([]string{"stmtNode", "ddlNode", "dmlNode"}, embedded.Name)
	})
}

// isOfKind reports whether a statement, or one inside of it, is of a kind.
func isOfKind(t testing.TB, text, name string, want kind) (found bool) {
	stmt, err := tidbparser.New().ParseOneStmt(text, "", "")
	require.NoError(t, err, text)
	asttree.Walk(stmt, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.AlterTableStmt:
			for _, spec := range s.Specs {
				found = found || want == kind{"alter", int(spec.Tp)}
			}
		case *ast.AdminStmt:
			found = found || want == kind{"admin", int(s.Tp)}
		case *ast.ShowStmt:
			found = found || want == kind{"show", int(s.Tp)}
		}
		found = found || want == kind{} && fmt.Sprintf("%T", n) == "*ast."+name
		return !found
	})
	return found
}

// allElsewhere are the rights of the user who tries the system schemas.
var allElsewhere = []string{"ALL a1", "ALL b1"}

// temporaryOnly are the rights of the user who makes temporary tables.
var temporaryOnly = []string{"CREATE TEMPORARY TABLES b1", "ALL a1"}

// TestRightsOfEveryStatement: every statement that TiDB's parser knows needs the rights that the table of the walk gives, and no
// fewer. A kind of statement that the table does not have fails the test, so that none of a newer TiDB passes unseen.
func TestRightsOfEveryStatement(t *testing.T) {
	rights := [][]string{allElsewhere, temporaryOnly}
	for _, rows := range walkRows {
		for _, r := range rows {
			rights = slices.AppendSeq(append(rights, r.asked()), maps.Values(r.tooFew()))
		}
	}
	w := startWalk(t, rights)
	kinds := grammar(t)
	require.Greater(t, len(kinds), 200)
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		rows, harmless := walkRows[name], walkHarmless[name]
		assert.False(t, len(rows) == 0 && harmless == "", "the walk has no statement of kind %s: say what rights it needs", name)
		require.False(t, len(rows) > 0 && harmless != "", name)
		for _, r := range rows {
			require.True(t, isOfKind(t, r.sql, name, kinds[name]), "%s is no %s", r.sql, name)
			w.walk(r)
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(walkRows)), slices.Collect(maps.Keys(walkHarmless))) {
		_, known := kinds[name]
		assert.True(t, known, "TiDB's parser has no %s", name)
	}
	w.systemSchemas()
	w.temporaryTables()

	// GRANT makes accounts where the session allows it, for users who may make them.
	u := w.user([]string{"GRANT OPTION b1", "SELECT b1"})
	exec(t, u.db, "SET sql_mode = ''", "GRANT SELECT ON b1.* TO other")
	require.True(t, isDenied(u.denied(t, "GRANT SELECT ON b1.* TO made IDENTIFIED BY 'x'")))
}

// systemTables are tables of schemas that are TiDB's own.
var systemTables = map[string]string{
	"mysql": "user", "information_schema": "tables", "performance_schema": "session_variables", "metrics_schema": "uptime", "sys": "schema_unused_indexes",
}

// systemSchemas executes the statements on tables of system schemas as a user who has all rights elsewhere.
func (w *rightsWalk) systemSchemas() {
	u := w.user(allElsewhere)
	table := regexp.MustCompile(`\bb1\.[tpesvh]\b`)
	schema := regexp.MustCompile(`\bb1\b`)
	for _, name := range slices.Sorted(maps.Keys(walkRows)) {
		for _, r := range walkRows[name] {
			there := slices.ContainsFunc(r.asked(), func(right string) bool { return !strings.HasSuffix(right, " a1") })
			if r.silent != "" || !there || !schema.MatchString(r.sql) {
				continue
			}
			for system, of := range systemTables {
				text := schema.ReplaceAllString(table.ReplaceAllString(r.sql, system+"."+of), system)
				if system == "information_schema" && slices.Contains(onInformation, name) {
					continue
				}
				assert.Error(w, u.denied(w, text), "%s is executed", text)
			}
		}
	}
}

// besideTemporary are the kinds of statements that are about tables, views and sequences also where a temporary table has their name.
var besideTemporary = []string{
	"AlterSequenceStmt", "CreateSequenceStmt", "CreateViewStmt", "CreateTableStmt", "AlterTableAddConstraint", "AlterTableAddColumns", "RecoverTableStmt", "FlashBackTableStmt", "LockTablesStmt", "LockStatsStmt", "UnlockStatsStmt",
	"DropStatsStmt", "SplitRegionStmt", "RenameTableStmt", "DropSequenceStmt", "ShowRegions", "ShowCreateView", "ShowTableNextRowId", "PlanReplayerStmt", "RecommendIndexStmt",
}

// aboutTemporary are words of errors of statements that find the temporary table, and do not work on one.
var aboutTemporary = []string{"for local temporary table", "unsupported on temporary tables", "refers to a temporary table"}

// temporaryTables executes statements over temporary tables of the names that they have, as a user who may make these only.
func (w *rightsWalk) temporaryTables() {
	u := w.user(temporaryOnly)
	for _, name := range besideTemporary {
		for _, r := range walkRows[name] {
			if !strings.Contains(r.needs, " b1") || r.needs == temporaryOnly[0] {
				continue
			}
			for _, table := range []string{"t", "s", "v", "n", "p"} {
				exec(w.T, u.db, "CREATE TEMPORARY TABLE IF NOT EXISTS b1."+table+" (a INT PRIMARY KEY, b INT, c DATETIME, KEY ib (b))")
			}
			rows, err := u.db.Query(r.sql)
			if err == nil {
				err = rows.Close()
			}
			refuses := err != nil && slices.ContainsFunc(aboutTemporary, func(words string) bool { return strings.Contains(err.Error(), words) })
			assert.True(w, refuses || isDenied(err), "%s\n  is not denied to who has a temporary table of that name: %v", r.sql, err)
		}
	}
}

// onInformation are the kinds of statements that all users may execute on information_schema, which holds no rows: they read what it
// shows, and that is what the user may see. What a session makes there for itself ends with it, and rights on it give nothing.
var onInformation = []string{
	"SelectStmt", "UpdateStmt", "UseStmt", "PlanReplayerStmt", "CreateTableStmt", "AlterTableAddColumns", "GrantStmt", "RevokeStmt", "ShowColumns", "ShowCreateDatabase", "ShowCreateTable",
	"ShowIndex", "ShowPlacementForDatabase", "ShowPlacementForTable", "ShowRegions", "ShowTableNextRowId", "ShowTableStatus", "ShowTables",
}
