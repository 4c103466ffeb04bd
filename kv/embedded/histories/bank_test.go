package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	tikvkv "github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
)

const (
	accounts = 16
	balance  = 20
)

// bank is the workload of accounts whose sum stays. An account without money does not exist, so that rows come and go.
type bank struct {
	*run
	mu     sync.Mutex
	audits int
	wrong  []string
}

func newBank(r *run) workload { return &bank{run: r} }

func accountKey(i int) []byte { return fmt.Appendf(nil, "bank/%06d", i) }

// open makes the accounts, if they are not there.
func (b *bank) open(ctx context.Context, tx *transaction.KVTxn) error {
	if _, err := tx.Get(ctx, []byte("bank/open")); !tikverr.IsErrNotFound(err) {
		return err
	}
	for i := range accounts {
		if err := tx.Set(accountKey(i), encodeInt(balance)); err != nil {
			return err
		}
	}
	return tx.Set([]byte("bank/open"), []byte{1})
}

// transact implements workload.
func (b *bank) transact(ctx context.Context, _ int, rng *rand.Rand) {
	tx, err := b.client(rng).Begin()
	if err != nil {
		return
	}
	if _, err := tx.Get(ctx, []byte("bank/open")); err != nil {
		if b.open(ctx, tx) == nil {
			_, _, _ = b.commit(ctx, tx)
		}
		return
	}
	name := "transfer, optimistic"
	if rng.IntN(3) == 0 {
		_ = b.audit(ctx, tx, rng) // it is counted
		return
	}
	if rng.IntN(2) == 0 {
		name = "transfer, pessimistic"
		tx.SetPessimistic(true)
	}
	tx.SetEnable1PC(rng.IntN(2) == 0)
	if err := b.transfer(ctx, tx, rng); err != nil {
		_ = tx.Rollback()
		b.count(name, Aborted, err)
		return
	}
	outcome, _, err := b.commit(ctx, tx)
	b.count(name, outcome, err)
}

var errNoMoney = errors.New("not enough money")

// transfer moves money between two accounts or, one time in four, from one to several.
func (b *bank) transfer(ctx context.Context, tx *transaction.KVTxn, rng *rand.Rand) error {
	from := rng.Perm(accounts)[:2]
	if rng.IntN(4) == 0 {
		from = rng.Perm(accounts)[:2+rng.IntN(4)]
	}
	if rng.IntN(8) > 0 { // else there may be a deadlock
		slices.Sort(from)
	}
	balances := make([]int, len(from))
	for i, account := range from {
		var err error
		if balances[i], err = b.balance(ctx, tx, account); err != nil {
			return err
		}
	}
	for i := 1; i < len(from); i++ {
		amount := 1 + rng.IntN(balance)
		if rng.IntN(3) == 0 {
			amount = balances[0] // the account goes
		}
		if amount > balances[0] {
			continue
		}
		balances[0], balances[i] = balances[0]-amount, balances[i]+amount
	}
	for i, account := range from {
		key := accountKey(account)
		err := error(nil)
		if balances[i] == 0 {
			err = tx.Delete(key)
		} else {
			err = tx.Set(key, encodeInt(balances[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// balance reads an account, and locks it in a pessimistic transaction.
func (b *bank) balance(ctx context.Context, tx *transaction.KVTxn, account int) (int, error) {
	key := accountKey(account)
	if !tx.IsPessimistic() {
		value, err := tx.Get(ctx, key)
		if tikverr.IsErrNotFound(err) {
			err = nil
		}
		return decodeInt(value), err
	}
	forUpdate := tx.StartTS()
	for range 20 {
		lc := tikvkv.NewLockCtx(forUpdate, lockWait, time.Now())
		lc.InitReturnValues(1)
		err := tx.LockKeys(ctx, lc, key)
		if err == nil {
			return decodeInt(lc.Values[string(key)].Value), nil
		}
		if !tikverr.IsErrWriteConflict(err) {
			return 0, err
		}
		ver, err := b.cluster.timestamp(ctx)
		if err != nil {
			return 0, err
		}
		forUpdate = ver
	}
	return 0, errNoMoney
}

// audit adds all accounts up, by a scan forwards or backwards or by their keys.
func (b *bank) audit(ctx context.Context, tx *transaction.KVTxn, rng *rand.Rand) error {
	defer func() { _ = tx.Rollback() }()
	sum, seen := 0, []string(nil)
	see := func(key, value []byte) {
		sum += decodeInt(value)
		seen = append(seen, fmt.Sprintf("%s=%d", key, decodeInt(value)))
	}
	var err error
	if kind := rng.IntN(3); kind == 0 {
		err = b.auditByKeys(ctx, tx, see)
	} else {
		err = b.auditByScan(tx, kind == 1, 1+rng.IntN(5), see)
	}
	if err != nil {
		b.count("audit", Aborted, err)
		return err
	}
	b.count("audit", Committed, nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.audits++
	if sum != accounts*balance && len(b.wrong) < maxAnomalies {
		slices.Sort(seen)
		b.wrong = append(b.wrong, fmt.Sprintf("at %d the accounts have %d and not %d: %v", tx.StartTS(), sum, accounts*balance, seen))
	}
	return nil
}

func (b *bank) auditByKeys(ctx context.Context, tx *transaction.KVTxn, see func(key, value []byte)) error {
	var keys [][]byte
	for i := range accounts {
		keys = append(keys, accountKey(i))
	}
	found, err := batchGet(ctx, tx.BatchGet, keys)
	for key, value := range found {
		see([]byte(key), value)
	}
	return err
}

func (b *bank) auditByScan(tx *transaction.KVTxn, reverse bool, batch int, see func(key, value []byte)) error {
	tx.GetSnapshot().SetScanBatchSize(max(batch, 2))
	iter := func() (iterator, error) { return tx.Iter(accountKey(0), accountKey(accounts)) }
	if reverse {
		iter = func() (iterator, error) { return tx.IterReverse(accountKey(accounts), accountKey(0)) }
	}
	it, err := iter()
	if err != nil {
		return err
	}
	defer it.Close()
	for it.Valid() {
		see(it.Key(), it.Value())
		if err := it.Next(); err != nil {
			return err
		}
	}
	return nil
}

// finish implements workload.
func (b *bank) finish(ctx context.Context) (report Report) {
	rng := rand.New(rand.NewPCG(0, 0))
	for range 3 {
		tx, err := b.client(rng).Begin()
		if err == nil {
			err = b.audit(ctx, tx, rng)
		}
		if err != nil {
			b.t.Errorf("the last audit: %v", err)
		}
	}
	report.Txns, report.Reads = b.audits, b.audits*accounts
	for _, wrong := range b.wrong {
		report.add(ReadSkew, "%s", wrong)
	}
	return report
}
