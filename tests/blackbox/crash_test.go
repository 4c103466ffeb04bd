package blackbox

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// crashSeed seeds the random moments of the crashes; it is printed.
func crashSeed(t *testing.T) *rand.Rand {
	t.Helper()
	return randtest.Rand(t)
}

const (
	accounts       = 20
	initialBalance = 1000
)

// bank is a write load whose transactions are each of several statements: a
// transfer takes from one account, gives to another, and writes itself into a
// ledger.
type bank struct {
	mu           sync.Mutex
	acknowledged []int64
	nextID       int64
}

func (b *bank) create(t *testing.T, db *sql.DB) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)")
	mustExec(t, db, "CREATE TABLE ledger (id BIGINT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, amount INT NOT NULL, KEY a (a))")
	for id := range accounts {
		mustExec(t, db, "INSERT INTO account VALUES (?, ?)", id, initialBalance)
	}
}

// made is how many transfers have been acknowledged.
func (b *bank) made() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acknowledged)
}

// run makes transfers in several threads until the server goes away.
func (b *bank) run(ctx context.Context, db *sql.DB, threads int) *sync.WaitGroup {
	var wg sync.WaitGroup
	for w := range threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(w), uint64(time.Now().UnixNano())))
			for ctx.Err() == nil {
				b.mu.Lock()
				b.nextID++
				id := b.nextID
				b.mu.Unlock()
				if transfer(ctx, db, id, rng.IntN(accounts), rng.IntN(accounts), 1+rng.IntN(10)) == nil {
					b.mu.Lock()
					b.acknowledged = append(b.acknowledged, id)
					b.mu.Unlock()
				}
			}
		}()
	}
	return &wg
}

func transfer(ctx context.Context, db *sql.DB, id int64, from, to, amount int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, q := range []string{
		fmt.Sprintf("UPDATE account SET balance = balance - %d WHERE id = %d", amount, from),
		fmt.Sprintf("INSERT INTO ledger VALUES (%d, %d, %d, %d)", id, from, to, amount),
		fmt.Sprintf("UPDATE account SET balance = balance + %d WHERE id = %d", amount, to),
	} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			_ = tx.Rollback()
			return err
		}
	}
	return tx.Commit()
}

// check makes sure that every acknowledged transfer is there and that each
// transfer is there completely or not at all.
func (b *bank) check(t *testing.T, db *sql.DB) {
	t.Helper()
	inLedger := make(map[string]bool)
	for _, row := range queryAll(t, db, "SELECT id FROM ledger") {
		inLedger[row[0]] = true
	}
	for _, id := range b.acknowledged {
		require.True(t, inLedger[fmt.Sprint(id)], "acknowledged transfer %d is lost", id)
	}
	require.Equal(t, fmt.Sprint(accounts*initialBalance), value(t, db, "SELECT SUM(balance) FROM account"))
	for _, row := range queryAll(t, db, "SELECT id, balance FROM account") {
		in := value(t, db, "SELECT COALESCE(SUM(amount), 0) FROM ledger WHERE b = "+row[0])
		out := value(t, db, "SELECT COALESCE(SUM(amount), 0) FROM ledger WHERE a = "+row[0])
		want := value(t, db, fmt.Sprintf("SELECT %d + %s - %s", initialBalance, in, out))
		require.Equal(t, want, row[1], "account %s shows half of a transfer", row[0])
	}
	mustExec(t, db, "ADMIN CHECK TABLE account")
	mustExec(t, db, "ADMIN CHECK TABLE ledger")
}

func TestKillUnderWritesLosesNothing(t *testing.T) {
	randtest.SkipShort(t)
	rng := crashSeed(t)
	dir := t.TempDir()
	n := startNode(t, dir)
	b := &bank{}
	b.create(t, n.db())
	for range 4 {
		ctx, cancel := context.WithCancel(context.Background())
		before := b.made()
		threads := b.run(ctx, n.db(), 8)
		require.Eventually(t, func() bool { return b.made() > before }, startTimeout, pollInterval, "no client can write")
		time.Sleep(time.Duration(200+rng.IntN(1000)) * time.Millisecond)
		n.kill()
		cancel()
		threads.Wait()
		n = startNode(t, dir)
		b.check(t, n.db())
	}
	t.Logf("%d transfers were acknowledged", b.made())
}

func TestKillDuringAddIndex(t *testing.T) {
	randtest.SkipShort(t)
	rng := crashSeed(t)
	const rows = 60_000
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	fill(t, db, "big", rows)
	b := &bank{}
	b.create(t, db)
	// Slow enough to be hit: the index has about 2 MB.
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 1048576")

	finished := 0
	for i := range 4 {
		name := fmt.Sprintf("k%d", i)
		ctx, cancel := context.WithCancel(context.Background())
		threads := b.run(ctx, n.db(), 2)
		altered := make(chan error, 1)
		go func(db *sql.DB) {
			_, err := db.Exec("ALTER TABLE big ADD INDEX " + name + " (k)")
			altered <- err
		}(n.db())
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		n.kill()
		cancel()
		threads.Wait()
		acknowledged := <-altered == nil

		n = startNode(t, dir)
		db = n.db()
		waitForJobs(t, db)
		b.check(t, db)
		mustExec(t, db, "ADMIN CHECK TABLE big")
		present := slices.Contains(indexNames(t, db, "big"), name)
		if acknowledged {
			require.True(t, present, "the ALTER was acknowledged")
		}
		if present {
			finished++
			mustExec(t, db, "ADMIN CHECK INDEX big "+name)
		}
		requireEmptyTempDir(t, filepath.Join(dir, "tmp"))
	}
	t.Logf("%d of 4 index builds went on to the end", finished)
	require.Equal(t, fmt.Sprint(rows), value(t, db, "SELECT COUNT(*) FROM big"))
}

// requireEmptyTempDir checks that no file of an index build is left.
func requireEmptyTempDir(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// The folder of the server stays, and TiDB's in it.
		if !d.IsDir() && !strings.HasSuffix(strings.ToUpper(d.Name()), "LOCK") {
			t.Errorf("left in the temp folder: %s", path)
		}
		return nil
	})
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
}
