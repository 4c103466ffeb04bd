package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

const (
	accounts       = 12
	initialBalance = 1000
	tellers        = 3
)

// bank is what the workers of tables leave out: transactions that all change the
// same rows, wait for each other and deadlock. A transfer takes from one account,
// gives to another, and writes itself into the ledger. Indexes come and go on both
// tables.
type bank struct {
	run    *run
	rng    *rand.Rand
	nextID atomic.Int64
	// acknowledged are the transfers that must be in the ledger, by teller.
	acknowledged      [tellers][]int64
	conflicts, alters atomic.Int64
}

func newBank(r *run) *bank {
	return &bank{run: r, rng: rand.New(rand.NewPCG(r.rng.Uint64(), 4))}
}

func (b *bank) create(db *sql.DB) error {
	statements := []string{
		"CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)",
		"CREATE TABLE ledger (id BIGINT NOT NULL, a INT NOT NULL, b INT NOT NULL, amount INT NOT NULL, " +
			pick(b.rng, "PRIMARY KEY (id)", "PRIMARY KEY (id) NONCLUSTERED", "UNIQUE KEY id (id)") + ")",
	}
	for id := range accounts {
		statements = append(statements, fmt.Sprintf("INSERT INTO account VALUES (%d, %d)", id, initialBalance))
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// teller makes transfers until the server goes away.
func (b *bank) teller(ctx context.Context, db *sql.DB, number int, rng *rand.Rand) error {
	return b.run.keepWorking(ctx, db, func(c *connection) error {
		for !b.run.ending.Load() {
			c.begins()
			id := b.nextID.Add(1)
			from := rng.IntN(accounts)
			err := transfer(ctx, c, rng, id, from, (from+1+rng.IntN(accounts-1))%accounts)
			switch {
			case err == nil:
				b.acknowledged[number] = append(b.acknowledged[number], id)
			case slices.Contains(retryable, errorNumber(err)):
				b.conflicts.Add(1)
				_, err = c.ExecContext(ctx, "ROLLBACK")
			}
			if err != nil {
				return fmt.Errorf("transfer %d: %w", id, err)
			}
		}
		return nil
	}, func() error { return nil })
}

func transfer(ctx context.Context, conn *connection, rng *rand.Rand, id int64, from, to int) error {
	amount := 1 + rng.IntN(10)
	statements := []string{
		pick(rng, "BEGIN", "BEGIN PESSIMISTIC", "BEGIN OPTIMISTIC"),
		fmt.Sprintf("UPDATE account SET balance = balance - %d WHERE id = %d", amount, from),
		fmt.Sprintf("INSERT INTO ledger VALUES (%d, %d, %d, %d)", id, from, to, amount),
		fmt.Sprintf("UPDATE account SET balance = balance + %d WHERE id = %d", amount, to),
		"COMMIT",
	}
	if oneIn(rng, 4) {
		statements = slices.Insert(statements, 1, fmt.Sprintf("SELECT * FROM account WHERE id IN (%d, %d) FOR UPDATE", from, to))
	}
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// alter adds and drops indexes of both tables until the server goes away.
func (b *bank) alter(ctx context.Context, db *sql.DB, rng *rand.Rand) error {
	for since := time.Now(); !b.run.ending.Load(); {
		begun := time.Now()
		statement := pick(rng,
			"ALTER TABLE account ADD INDEX balance (balance)", "ALTER TABLE account DROP INDEX balance",
			"ALTER TABLE ledger ADD INDEX a (a, amount), ADD UNIQUE INDEX transfer (id, a, b)", "ALTER TABLE ledger DROP INDEX a, DROP INDEX transfer",
			"ALTER TABLE ledger ADD UNIQUE INDEX transfer (id, a, b)", "ALTER TABLE ledger DROP INDEX transfer")
		_, err := db.ExecContext(ctx, statement)
		switch code := errorNumber(err); {
		case err == nil:
			b.alters.Add(1)
		case code == 1061 || code == 1091 || code == 8214: // it is there, it is not, or it was cancelled
		case code == 8028: // one of the first two, while another table's schema changed (pkg/executor/ddl.go, toErr)
		default:
			switch err = b.run.gone(since, err); {
			case errors.Is(err, errNodeGone):
				return nil
			case !errors.Is(err, errFaultInjected):
				return fmt.Errorf("%s: %w", statement, err)
			}
			b.run.faultsNoticed.Add(1)
			time.Sleep(5 * time.Millisecond)
		}
		since = begun
	}
	return nil
}

// check looks at both tables in one snapshot: money neither comes nor goes, and
// every transfer is in the ledger and in both accounts, or nowhere.
func (b *bank) check(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	want := make(map[string]int)
	for id := range accounts {
		want[fmt.Sprint(id)] = initialBalance
	}
	err = each(ctx, tx, "SELECT a, b, amount FROM ledger", func(row []string) error {
		var amount int
		_, err := fmt.Sscan(row[2], &amount)
		want[row[0]] -= amount
		want[row[1]] += amount
		return err
	})
	if err != nil {
		return err
	}
	err = each(ctx, tx, "SELECT id, balance FROM account", func(row []string) error {
		balance, known := want[row[0]]
		if !known || fmt.Sprint(balance) != row[1] {
			return wrongf("account %s has %s, want %d by the ledger", row[0], row[1], balance)
		}
		delete(want, row[0])
		return nil
	})
	if err == nil && len(want) > 0 {
		return wrongf("accounts are lost: %v", want)
	}
	return err
}

// checkAfterRestart verifies that no acknowledged transfer is lost, and both
// tables with all their indexes.
func (b *bank) checkAfterRestart(ctx context.Context, db *sql.DB) error {
	found := make(map[int64]bool)
	err := each(ctx, db, "SELECT id FROM ledger", func(row []string) error {
		var id int64
		_, err := fmt.Sscan(row[0], &id)
		found[id] = true
		return err
	})
	if err != nil {
		return err
	}
	for _, ids := range b.acknowledged {
		for _, id := range ids {
			if !found[id] {
				return wrongf("acknowledged transfer %d is lost", id)
			}
		}
	}
	if err := b.check(ctx, db); err != nil {
		return err
	}
	for _, table := range []string{"account", "ledger"} {
		if err := adminCheck(ctx, db, table); err != nil {
			return err
		}
	}
	return nil
}
