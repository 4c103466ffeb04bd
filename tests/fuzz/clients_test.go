package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

const (
	// clients is the number of connections that speak the binary protocol.
	clients = 8
	// bigRows is how many rows there are that never change; their column a is id modulo groups.
	bigRows = 6000
	groups  = 40
)

// TestRandomClients has clients use all of the protocol, while indexes come and go and statements are killed: prepared
// statements with parameters of all types, cursors that are fetched in pieces, left, reset and
// closed, long data, several statements in one, files, large packets, changed users. What
// cursors hand out is compared byte for byte with what was read before. Nothing fails, and no connection is lost,
// but for a KILL. TiDB's races with a KILL are many and rare, so statements are killed in long runs only.
func TestRandomClients(t *testing.T) {
	randtest.SkipShort(t)
	rng := randtest.Rand(t)
	r := &clientRun{target: startTarget(t, memoryLimit, "--log-level", "error")}
	r.prepare()
	child := func() *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())) }
	until := time.Now().Add(runTime(t))
	stop := make(chan struct{})
	var work, beside sync.WaitGroup
	for range clients {
		c := &binaryClient{run: r, rng: child()}
		r.clients = append(r.clients, c)
		work.Go(func() { c.work(until) })
	}
	loops := []func(*rand.Rand, <-chan struct{}){r.alter, r.transfer}
	if os.Getenv("FASTDDL_LONG") != "" {
		loops = append(loops, r.kill)
	}
	for _, loop := range loops {
		own := child()
		beside.Go(func() { loop(own, stop) })
	}
	work.Wait()
	close(stop)
	beside.Wait()
	t.Logf("%d scenes, %d cursors with %d rows in %d pieces; %d KILLs ended %d scenes; %d schema changes, %d transfers",
		r.scenes.Load(), r.cursors.Load(), r.fetched.Load(), r.pieces.Load(), r.kills.Load(), r.ended.Load(), r.alters.Load(), r.transfers.Load())
	require.Positive(t, r.fetched.Load())
	db := r.Open(database)
	_, err := db.Exec("ADMIN CHECK TABLE big, account, long_data, loaded")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	r.target.stop()
	r.requireNoFiles()
}

type clientRun struct {
	*target
	clients []*binaryClient
	// row is what the binary protocol says of the rows of big.
	row [bigRows][]byte

	scenes, cursors, fetched, pieces, kills, ended, alters, transfers atomic.Int64
}

func (r *clientRun) prepare() {
	conn := r.connect("")
	defer conn.Close()
	execAll(r.t, conn,
		"CREATE DATABASE "+database, "USE "+database, "SET GLOBAL local_infile = ON", "CREATE USER other", "GRANT ALL ON *.* TO other",
		`CREATE TABLE big (id INT PRIMARY KEY, a INT, s VARCHAR(200), d DATETIME(6), n DECIMAL(20,5), f DOUBLE, g FLOAT, b BLOB, j JSON, e ENUM('x','y','z'), m SET('a','b'), t TIME(3), y YEAR,
			bits BIT(11), u BIGINT UNSIGNED, ts TIMESTAMP NULL, v BIGINT AS (a * 2) VIRTUAL)`,
		"CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)",
		"CREATE TABLE long_data (id INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB, t LONGTEXT)",
		"CREATE TABLE loaded (client INT, n INT, s VARCHAR(50), PRIMARY KEY (client, n))",
		"CREATE TABLE never (id BIGINT UNSIGNED PRIMARY KEY)",
		"SET cte_max_recursion_depth = 100000",
		fmt.Sprintf(`INSERT INTO big (id, a, s, d, n, f, g, b, j, e, m, t, y, bits, u, ts) WITH RECURSIVE c (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < %d)
			SELECT i, i %% %d, REPEAT(CHAR(97 + i %% 26), i %% 190), IF(i %% 7 = 0, NULL, '2020-01-01' + INTERVAL i * 1000003 MICROSECOND), i / 7, SQRT(i), i / 3, IF(i %% 5 = 0, NULL, UNHEX(MD5(i))),
				JSON_OBJECT('i', i), ELT(1 + i %% 3, 'x', 'y', 'z'), ELT(1 + i %% 3, '', 'a', 'a,b'), SEC_TO_TIME(i * 7 - 5000), 1970 + i %% 50, i %% 2048, 18446744073709551615 - i, '2021-01-01' + INTERVAL i HOUR FROM c`, bigRows-1, groups),
		fmt.Sprintf("INSERT INTO account WITH RECURSIVE c (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 999) SELECT i, %d FROM c", balance),
	)
	d, err := newDialogue(r.Addr)
	require.NoError(r.t, err)
	defer d.Close()
	id, err := d.prepare("SELECT * FROM big")
	require.NoError(r.t, err)
	all, err := d.execute(id, false)
	require.NoError(r.t, err)
	require.Len(r.t, all.rows, bigRows)
	for _, row := range all.rows {
		r.row[firstInt(row, all.columns)] = row
	}
}

// firstInt is the first column of a binary row, an INT that is not NULL.
func firstInt(row []byte, columns int) int32 {
	return int32(binary.LittleEndian.Uint32(row[1+(columns+7+2)/8:]))
}

// alter adds and drops indexes.
func (r *clientRun) alter(rng *rand.Rand, stop <-chan struct{}) {
	db := r.Open(database)
	defer db.Close()
	for !stopped(stop, 0) {
		index := pick(rng, []string{"INDEX i (a)", "INDEX i (s(20), d)", "UNIQUE INDEX i (id, s)", "INDEX i (v), ADD INDEX k (n)", "UNIQUE INDEX i ((CAST(u AS CHAR(30))))", "INDEX i (e, m, t, y)"})
		drop := "DROP INDEX i"
		if strings.Contains(index, " k ") {
			drop += ", DROP INDEX k"
		}
		for _, query := range []string{"ALTER TABLE big ADD " + index, "ALTER TABLE account ADD INDEX b (balance)", "ALTER TABLE big " + drop, "ALTER TABLE account DROP INDEX b"} {
			if _, err := db.Exec(query); err != nil {
				r.t.Errorf("%s: %v", query, err)
				return
			}
			r.alters.Add(1)
		}
	}
}

// transfer moves money between accounts.
func (r *clientRun) transfer(rng *rand.Rand, stop <-chan struct{}) {
	db := r.Open(database)
	defer db.Close()
	for !stopped(stop, time.Duration(rng.IntN(20))*time.Millisecond) {
		from := rng.IntN(1000)
		to := (from + 1 + rng.IntN(999)) % 1000
		if _, err := db.Exec(fmt.Sprintf("UPDATE account SET balance = balance + IF(id = %d, -1, 1) WHERE id IN (%d, %d)", from, from, to)); err != nil {
			r.t.Errorf("transfer: %v", err)
			return
		}
		r.transfers.Add(1)
	}
}

// kill kills statements and connections.
func (r *clientRun) kill(rng *rand.Rand, stop <-chan struct{}) {
	conn := r.connect("")
	defer func() { _ = conn.Close() }()
	for !stopped(stop, time.Duration(rng.IntN(300))*time.Millisecond) {
		c := pick(rng, r.clients)
		c.mu.Lock()
		id := c.id
		c.killed = id != 0
		c.mu.Unlock()
		if id == 0 {
			continue
		}
		_, err := conn.ExecContext(context.Background(), fmt.Sprintf("KILL %s %d", pick(rng, []string{"QUERY", "QUERY", "CONNECTION"}), id))
		switch {
		case isKilledTooEarly(err):
			_ = conn.Close()
			conn = r.connect("")
		case err != nil:
			r.t.Errorf("KILL: %v", err)
		}
		r.kills.Add(1)
	}
}

// isKilledTooEarly says that a KILL has ended its own connection: TiDB does so if the other one has a new session which has not
// been sent anything (GetProcessInfo in pkg/server/server.go:887, ast.KillStmt in pkg/planner/core/planbuilder.go:3754).
func isKilledTooEarly(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == unknownError && strings.Contains(e.Message, "nil pointer dereference")
}

// requireNoFiles checks that no cursor has left a file.
func (r *clientRun) requireNoFiles() {
	dir := r.Cmd.Args[slices.Index(r.Cmd.Args, "--path")+1]
	require.NoError(r.t, filepath.WalkDir(filepath.Join(dir, "tmp"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(path), "chunk") {
			r.t.Errorf("is left: %s", path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}))
}

// binaryClient does one scene after the other.
type binaryClient struct {
	run *clientRun
	rng *rand.Rand
	d   *dialogue
	// done are the last steps, settings what the session has set.
	done, settings []string

	mu     sync.Mutex
	id     uint32 // 0 if there is none to be killed
	killed bool
}

// say notes a step.
func (c *binaryClient) say(format string, args ...any) {
	c.done = append(c.done[max(0, len(c.done)-3*history):], fmt.Sprintf(format, args...))
}

func (c *binaryClient) connect() error {
	d, err := newDialogue(c.run.Addr)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.d, c.id, c.killed, c.done, c.settings = d, d.id, false, nil, nil
	return nil
}

// leave ends the connection and says whether it was killed.
func (c *binaryClient) leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.d.Close()
	c.d, c.id = nil, 0
	return c.killed
}

func (c *binaryClient) work(until time.Time) {
	scenes := []struct {
		name string
		play func(*binaryClient) error
	}{
		{"cursor", (*binaryClient).cursor}, {"cursor", (*binaryClient).cursor}, {"cursor", (*binaryClient).cursor}, {"two cursors", (*binaryClient).twoCursors},
		{"sum", (*binaryClient).sum}, {"parameters", (*binaryClient).parameters}, {"long data", (*binaryClient).longData},
		{"several statements", (*binaryClient).severalStatements}, {"file", (*binaryClient).file}, {"large packet", (*binaryClient).largePacket},
		{"another session", (*binaryClient).anotherSession}, {"settings", (*binaryClient).set}, {"no query", (*binaryClient).admin},
	}
	for (time.Now().Before(until) || c.run.fetched.Load() == 0) && !c.run.t.Failed() {
		if c.d == nil {
			if err := c.connect(); err != nil {
				c.run.t.Errorf("log in: %v", err)
				return
			}
		}
		scene := pick(c.rng, scenes)
		c.say("scene: %s", scene.name)
		c.run.scenes.Add(1)
		err := scene.play(c)
		if err == nil {
			continue
		}
		c.run.ended.Add(1)
		var e *refused
		if errors.As(err, &e) && e.number == 8175 && strings.Contains(strings.Join(c.settings, " "), "quota") {
			c.leave() // the quota is small
			continue
		}
		// KILL ends the reading of a file by its deadline (pkg/server/server.go:967).
		interrupted := errors.As(err, &e) && (e.number == 1317 || e.number == 1105 && strings.Contains(e.message, "1317") ||
			e.number == 8160 && strings.Contains(e.message, "i/o timeout"))
		if killed := c.leave(); !killed || !interrupted && !lost(err) {
			c.run.t.Errorf("killed: %t: %v, after\n%s", killed, err, strings.Join(c.done, "\n"))
		}
	}
	if c.d != nil {
		c.leave()
	}
}

// wrong is what was read and should not have been.
type wrong struct{ text string }

func (w *wrong) Error() string { return w.text }

// open opens a cursor for rows of big and returns the IDs that it has to give.
func (c *binaryClient) open() (statement uint32, want map[int32]bool, err error) {
	want = make(map[int32]bool)
	var text string
	var parameters []parameter
	switch c.rng.IntN(4) {
	case 0:
		from := c.rng.IntN(bigRows)
		to := from + c.rng.IntN(bigRows-from)
		text = "SELECT * FROM big WHERE id BETWEEN ? AND ?" + pick(c.rng, []string{"", " ORDER BY id", " ORDER BY id DESC", " ORDER BY s, id"})
		parameters = []parameter{integer(from), integer(to)}
		for id := from; id <= to; id++ {
			want[int32(id)] = true
		}
	case 1:
		group := c.rng.IntN(groups)
		text = "SELECT * FROM big WHERE a = ?"
		parameters = []parameter{integer(group)}
		for id := group; id < bigRows; id += groups {
			want[int32(id)] = true
		}
	case 2:
		text = "SELECT * FROM big WHERE v < ? ORDER BY a, d"
		bound := c.rng.IntN(2 * groups)
		parameters = []parameter{integer(bound)}
		for id := range int32(bigRows) {
			if int(id)%groups*2 < bound {
				want[id] = true
			}
		}
	default:
		limit := c.rng.IntN(bigRows + 10)
		text = "SELECT * FROM big ORDER BY id LIMIT ?"
		parameters = []parameter{integer(limit)}
		for id := range min(limit, bigRows) {
			want[int32(id)] = true
		}
	}
	if statement, err = c.d.prepare(text); err != nil {
		return 0, nil, fmt.Errorf("prepare %s: %w", text, err)
	}
	r, err := c.d.execute(statement, true, parameters...)
	if err != nil {
		return 0, nil, fmt.Errorf("execute %s: %w", text, err)
	}
	c.say("%d: %s with %d rows, status %#x", statement, text, len(want), r.status)
	c.run.cursors.Add(1)
	if r.status&cursorExists == 0 {
		return 0, nil, &wrong{"no cursor"}
	}
	return statement, want, nil
}

func integer(n int) parameter {
	return parameter{kind: 0x08, value: binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

// piece fetches some rows and takes them from what is wanted; last says that there are no more.
func (c *binaryClient) piece(statement uint32, want map[int32]bool) (last bool, err error) {
	n := pick(c.rng, []int{1, 2, 10, 100, 1000, 1024, 5000, 100000})
	r, err := c.d.fetch(statement, n)
	if err != nil {
		return false, fmt.Errorf("fetch %d of %d: %w", n, statement, err)
	}
	c.say("%d: fetched %d of %d, status %#x", statement, len(r.rows), n, r.status)
	c.run.pieces.Add(1)
	c.run.fetched.Add(int64(len(r.rows)))
	for _, row := range r.rows {
		id := firstInt(row, 17)
		if !want[id] {
			return false, &wrong{fmt.Sprintf("row %d is not wanted, or twice", id)}
		}
		delete(want, id)
		if !bytes.Equal(row, c.run.row[id]) {
			return false, &wrong{fmt.Sprintf("row %d is\n%q, and was\n%q", id, row, c.run.row[id])}
		}
	}
	n = min(n, 1024) // which is the most that TiDB gives
	last = r.status&lastRowSent != 0
	if last && len(want) > 0 || len(r.rows) > n || !last && len(r.rows) < n {
		return last, &wrong{fmt.Sprintf("%d of %d rows were fetched, last: %t; %d are missing", len(r.rows), n, last, len(want))}
	}
	return last, nil
}

// cursor fetches the rows of a cursor, or some of them, with other things in between.
func (c *binaryClient) cursor() error {
	statement, want, err := c.open()
	if err != nil {
		return err
	}
	for {
		last, err := c.piece(statement, want)
		if err != nil {
			return err
		}
		if last {
			break
		}
		switch c.rng.IntN(12) {
		case 0:
			c.say("close in the middle")
			return c.d.close(statement)
		case 1:
			c.say("reset in the middle")
			if err := c.d.resetStatement(statement); err != nil {
				return err
			}
			if _, err := c.d.fetch(statement, 1); err == nil {
				return &wrong{"a cursor that was reset has rows"}
			} else if lost(err) {
				return err
			}
			return c.d.close(statement)
		case 2:
			if _, err := c.d.query("SELECT COUNT(*) FROM big WHERE a = 5"); err != nil {
				return fmt.Errorf("a query between two fetches: %w", err)
			}
		case 3:
			if err := c.d.simple(comPing); err != nil {
				return fmt.Errorf("a ping: %w", err)
			}
		case 4:
			if _, err := c.d.query("INSERT INTO long_data (b) VALUES ('between')"); err != nil {
				return fmt.Errorf("an INSERT between two fetches: %w", err)
			}
		case 5:
			time.Sleep(time.Duration(c.rng.IntN(200)) * time.Millisecond)
		}
	}
	if c.rng.IntN(2) == 0 { // it is executed again
		if err := c.d.resetStatement(statement); err != nil {
			return err
		}
	}
	return c.d.close(statement)
}

// twoCursors fetches from two in turn.
func (c *binaryClient) twoCursors() error {
	type open struct {
		statement uint32
		want      map[int32]bool
	}
	var cursors []open
	for range 2 {
		statement, want, err := c.open()
		if err != nil {
			return err
		}
		cursors = append(cursors, open{statement, want})
	}
	for len(cursors) > 0 {
		i := c.rng.IntN(len(cursors))
		last, err := c.piece(cursors[i].statement, cursors[i].want)
		if err != nil {
			return err
		}
		if last {
			if err := c.d.close(cursors[i].statement); err != nil {
				return err
			}
			cursors = append(cursors[:i], cursors[i+1:]...)
		}
	}
	return nil
}

// sum fetches all accounts with a cursor, beside transfers and in a transaction or without.
func (c *binaryClient) sum() error {
	inTransaction := c.rng.IntN(2) == 0
	if inTransaction {
		if _, err := c.d.query("BEGIN"); err != nil {
			return err
		}
	}
	text := "SELECT balance, id FROM account" + pick(c.rng, []string{"", " ORDER BY balance", " WHERE balance > 0 OR id >= 0", " USE INDEX ()"})
	statement, err := c.d.prepare(text)
	if err != nil {
		return err
	}
	if _, err := c.d.execute(statement, true); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	total, rows := 0, 0
	for last := false; !last; {
		r, err := c.d.fetch(statement, 1+c.rng.IntN(400))
		if err != nil {
			return fmt.Errorf("fetch %s: %w", text, err)
		}
		for _, row := range r.rows {
			total += int(firstInt(row, 2))
		}
		rows += len(r.rows)
		last = r.status&lastRowSent != 0
	}
	if rows != 1000 || total != 1000*balance {
		return &wrong{fmt.Sprintf("%s: %d rows with a sum of %d", text, rows, total)}
	}
	if inTransaction {
		if _, err := c.d.query("COMMIT"); err != nil {
			return err
		}
	}
	return c.d.close(statement)
}

// typed are parameters with what they are equal to.
func (c *binaryClient) typed() (parameter, string) {
	n := c.rng.Uint64()
	little := binary.LittleEndian
	clock := fmt.Sprintf("%02d:%02d:%02d", 23, 59, 58)
	day := []byte{0xe8, 7, 2, 29}
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	switch c.rng.IntN(20) {
	case 0:
		return parameter{kind: 0x01, value: []byte{byte(n)}}, fmt.Sprint(int8(n))
	case 1:
		return parameter{kind: 0x01, unsigned: true, value: []byte{byte(n)}}, fmt.Sprint(uint8(n))
	case 2:
		return parameter{kind: 0x02, value: little.AppendUint16(nil, uint16(n))}, fmt.Sprint(int16(n))
	case 3:
		return parameter{kind: 0x03, value: little.AppendUint32(nil, uint32(n))}, fmt.Sprint(int32(n))
	case 4:
		return parameter{kind: 0x03, unsigned: true, value: little.AppendUint32(nil, uint32(n))}, fmt.Sprint(uint32(n))
	case 5:
		return parameter{kind: 0x08, value: little.AppendUint64(nil, n)}, fmt.Sprint(int64(n))
	case 6:
		return parameter{kind: 0x08, unsigned: true, value: little.AppendUint64(nil, n)}, fmt.Sprint(n)
	case 7:
		return parameter{kind: 0x05, value: little.AppendUint64(nil, math.Float64bits(float64(int32(n))/8))}, fmt.Sprint(float64(int32(n)) / 8)
	case 8:
		return parameter{kind: 0x04, value: little.AppendUint32(nil, math.Float32bits(float32(int16(n))/8))}, fmt.Sprint(float32(int16(n)) / 8)
	case 9:
		return parameter{kind: 0x06, null: true}, "NULL"
	case 10:
		return parameter{kind: 0x0a, value: append([]byte{4}, day...)}, "DATE'2024-02-29'"
	case 11:
		return parameter{kind: 0x0c, value: append(append([]byte{7}, day...), 23, 59, 58)}, "TIMESTAMP'2024-02-29 " + clock + "'"
	case 12:
		return parameter{kind: 0x07, value: append(append([]byte{11}, day...), 23, 59, 58, 0x40, 0xe2, 1, 0)}, "TIMESTAMP'2024-02-29 " + clock + ".123456'"
	case 13:
		return parameter{kind: 0x0b, value: []byte{8, 1, 1, 0, 0, 0, 23, 59, 58}}, "TIME'-47:59:58'"
	case 14:
		return parameter{kind: 0x0b, value: []byte{12, 0, 0, 0, 0, 0, 23, 59, 58, 0x40, 0xe2, 1, 0}}, "TIME'" + clock + ".123456'"
	case 15:
		return parameter{kind: 0xf6, value: text("12345678901234567890.12345")}, "12345678901234567890.12345"
	case 16:
		return parameter{kind: 0xfd, value: text("日本'\\")}, "'日本''\\\\'"
	case 17:
		return parameter{kind: 0xfc, value: text("\x00\xff")}, "x'00ff'"
	case 18:
		return parameter{kind: 0xfe, value: text("")}, "''"
	default:
		return parameter{kind: 0x0f, value: text("text")}, "'text'"
	}
}

// parameters compares parameters of all types with literals.
func (c *binaryClient) parameters() error {
	var comparisons []string
	var parameters []parameter
	for range 1 + c.rng.IntN(30) {
		p, literal := c.typed()
		parameters = append(parameters, p)
		comparisons = append(comparisons, "? <=> "+literal)
	}
	text := "SELECT " + strings.Join(comparisons, ", ")
	statement, err := c.d.prepare(text)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", text, err)
	}
	for range 2 {
		r, err := c.d.execute(statement, c.rng.IntN(3) == 0, parameters...)
		if err == nil && r.status&cursorExists != 0 {
			r.rows = nil
			var f *result
			if f, err = c.d.fetch(statement, 10); err == nil {
				r.rows = f.rows
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		for i, comparison := range comparisons {
			if value := r.rows[0][1+(len(parameters)+9)/8+8*i:]; value[0] != 1 {
				return &wrong{fmt.Sprintf("%s is not true: %v", comparison, parameters[i])}
			}
		}
	}
	return c.d.close(statement)
}

// longData sends a parameter in pieces.
func (c *binaryClient) longData() error {
	statement, err := c.d.prepare("INSERT INTO long_data (b, t) VALUES (?, ?)")
	if err != nil {
		return err
	}
	var data []byte
	for range c.rng.IntN(6) {
		part := bytes.Repeat([]byte{byte(c.rng.IntN(256))}, c.rng.IntN(300000))
		if err := c.d.longData(statement, 0, part); err != nil {
			return err
		}
		data = append(data, part...)
	}
	sent := c.rng.IntN(4) > 0
	if !sent { // what was sent is forgotten
		if err := c.d.resetStatement(statement); err != nil {
			return err
		}
		data = nil
	}
	b := parameter{kind: 0xfc}
	if data == nil {
		b.value = []byte{0}
	}
	if _, err := c.d.execute(statement, false, b, parameter{kind: 0xfd, value: []byte{1, 'x'}}); err != nil {
		return fmt.Errorf("execute with %d bytes: %w", len(data), err)
	}
	r, err := c.d.query("SELECT CAST(LENGTH(b) AS CHAR) FROM long_data WHERE id = LAST_INSERT_ID()")
	if err != nil {
		return err
	}
	if got := string(r.rows[0][1:]); got != fmt.Sprint(len(data)) {
		return &wrong{fmt.Sprintf("%s bytes of %d are stored", got, len(data))}
	}
	return c.d.close(statement)
}

// severalStatements sends some in one.
func (c *binaryClient) severalStatements() error {
	if err := c.d.simple(comSetOption, 0, 0); err != nil {
		return fmt.Errorf("set the option: %w", err)
	}
	var texts []string
	for range 2 + c.rng.IntN(5) {
		texts = append(texts, pick(c.rng, []string{"SELECT 1", "INSERT INTO long_data (t) VALUES ('several')", "SELECT COUNT(*) FROM big", "SET @a = 5", "SELECT * FROM big WHERE id < 0", "DO SLEEP(0.001)"}))
	}
	r, err := c.d.query(strings.Join(texts, "; "))
	for range texts[1:] {
		if err != nil {
			return fmt.Errorf("%s: %w", texts, err)
		}
		if r.status&moreResults == 0 {
			return &wrong{fmt.Sprintf("%s have no more results", texts)}
		}
		r, err = c.d.answer()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", texts, err)
	}
	if r.status&moreResults != 0 {
		return &wrong{fmt.Sprintf("%s have more results", texts)}
	}
	return nil
}

// file loads rows.
func (c *binaryClient) file() error {
	client := slices.Index(c.run.clients, c)
	if _, err := c.d.query(fmt.Sprintf("DELETE FROM loaded WHERE client = %d", client)); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	var lines []string
	n := c.rng.IntN(3000)
	for i := range n {
		lines = append(lines, fmt.Sprintf("%d\t%d\t%s\n", client, i, strings.Repeat("x", c.rng.IntN(40))))
	}
	var packets []string
	for part := range slices.Chunk(lines, 1+c.rng.IntN(1000)) {
		packets = append(packets, strings.Join(part, ""))
	}
	r, err := c.d.query("LOAD DATA LOCAL INFILE 'rows' INTO TABLE loaded")
	if err != nil {
		return fmt.Errorf("begin to load: %w", err)
	}
	if r.file != "rows" {
		return &wrong{fmt.Sprintf("asks for the file %q", r.file)}
	}
	if r, err = c.d.load(packets); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if r.affected != uint64(n) {
		return &wrong{fmt.Sprintf("%d rows of %d were loaded", r.affected, n)}
	}
	return nil
}

// largePacket sends and gets more than fits into one packet.
func (c *binaryClient) largePacket() error {
	if c.rng.IntN(4) > 0 {
		return nil
	}
	n := fullPacket - 100 + c.rng.IntN(200)
	r, err := c.d.query("SELECT '" + strings.Repeat("x", n) + "'")
	if err != nil {
		return fmt.Errorf("a large packet: %w", err)
	}
	if got := len(r.rows[0]); got < n {
		return &wrong{fmt.Sprintf("%d of %d bytes came back", got, n)}
	}
	return nil
}

// anotherSession changes the user, or resets the connection, in the middle of a transaction and of a cursor.
func (c *binaryClient) anotherSession() error {
	statement, want, err := c.open()
	if err != nil {
		return err
	}
	if _, err := c.piece(statement, want); err != nil {
		return err
	}
	for _, query := range []string{"SET @mine = 1, sql_mode = ''", "BEGIN", "INSERT INTO never VALUES (CONNECTION_ID())"} {
		if _, err := c.d.query(query); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	if c.rng.IntN(2) == 0 {
		c.say("reset the connection")
		err = c.d.simple(comResetConn)
	} else {
		user := pick(c.rng, []string{"root", "other"})
		c.say("change the user to %s", user)
		err = c.d.changeUser(user)
	}
	if err != nil {
		return fmt.Errorf("another session: %w", err)
	}
	var e *refused
	if _, err := c.d.fetch(statement, 1); !errors.As(err, &e) {
		return fmt.Errorf("fetch of the session before: %w", err)
	} else if e.number != 1243 && !strings.Contains(e.message, "1243") {
		return e
	}
	r, err := c.d.query("SELECT CONCAT_WS(' ', @mine IS NULL, @@sql_mode <> '', DATABASE(), (SELECT COUNT(*) FROM never))")
	if err != nil {
		return fmt.Errorf("look at the session: %w", err)
	}
	if got := string(r.rows[0][1:]); got != "1 1 fuzz 0" {
		return &wrong{"the session has kept something: " + got}
	}
	return nil
}

// set changes how cursors work.
func (c *binaryClient) set() error {
	setting := pick(c.rng, []string{"tidb_enable_lazy_cursor_fetch = ON", "tidb_enable_lazy_cursor_fetch = OFF", "tidb_max_chunk_size = 32", "tidb_max_chunk_size = 1024",
		"tidb_mem_quota_query = 1048576", "tidb_mem_quota_query = 1073741824", "tidb_enable_vectorized_expression = OFF", "tidb_enable_vectorized_expression = ON",
		"tidb_enable_paging = OFF", "tidb_enable_paging = ON", "tidb_enable_chunk_rpc = OFF", "tidb_enable_chunk_rpc = ON", "tidb_distsql_scan_concurrency = 1", "tidb_enable_prepared_plan_cache = OFF"})
	c.say("SET %s", setting)
	c.settings = append(c.settings, setting)
	_, err := c.d.query("SET " + setting)
	return err
}

// admin reads with cursors what is no query.
func (c *binaryClient) admin() error {
	text := pick(c.rng, []string{"ADMIN SHOW DDL JOBS", "ADMIN SHOW DDL", "SHOW TABLES", "SHOW PROCESSLIST", "SELECT * FROM mysql.fastddl_ddl_jobs", "SELECT * FROM information_schema.ddl_jobs",
		"EXPLAIN SELECT * FROM big WHERE a = 1", "SHOW INDEX FROM big", "ADMIN SHOW DDL JOB QUERIES LIMIT 3", "SELECT id FROM big WHERE id = 7 FOR UPDATE", "EXPLAIN ANALYZE SELECT * FROM big WHERE a = 1"})
	statement, err := c.d.prepare(text)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", text, err)
	}
	r, err := c.d.execute(statement, true)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	for last := r.status&cursorExists == 0; !last; {
		if r, err = c.d.fetch(statement, 1+c.rng.IntN(5)); err != nil {
			return fmt.Errorf("fetch %s: %w", text, err)
		}
		last = r.status&lastRowSent != 0
	}
	return c.d.close(statement)
}
