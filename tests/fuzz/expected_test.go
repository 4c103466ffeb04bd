package fuzz

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// mode is how a statement's transaction is done.
type mode string

const (
	autocommit  mode = "autocommit"
	optimistic  mode = "optimistic"
	pessimistic mode = "pessimistic"
)

// situation is what an error is explained by.
type situation struct {
	kind string
	txn  mode
	// lazy, committed and impatient: see contender.
	lazy, committed, impatient bool
	// killed says that a KILL may have hit the statement.
	killed bool
	// failed says that a statement before it in its transaction has failed, savepoint
	// that there is one.
	failed, savepoint bool
}

// aborting are the errors that end their transaction.
var aborting = []uint16{1213, 8147}

// expectedError says when an error is right, and why.
type expectedError struct {
	number uint16
	// text is part of the message.
	text string
	when func(s situation) bool
	why  string
}

func (s situation) is(kinds ...string) bool { return slices.Contains(kinds, s.kind) }

func (s situation) writes() bool {
	return s.is("INSERT", "INSERT IGNORE", "REPLACE", "ON DUPLICATE KEY", "UPDATE", "UPDATE IGNORE", "DELETE")
}

// locks says that the statement locks rows at once. One that commits by itself does when
// it is tried again after a conflict.
func (s situation) locks() bool {
	return s.txn != optimistic && s.writes() || s.txn == pessimistic && s.is("FOR UPDATE", "NOWAIT")
}

// unverified says that the transaction writes what it has not looked at, and reads
// that again.
func (s situation) unverified() bool {
	return s.txn == optimistic || s.txn == pessimistic && s.lazy
}

// locksLate says that the statement may lock what one before it was to lock. TiDB keeps a
// list of the keys that statements do not change (addUnchangedKeysForLockByRow), and
// empties it when it locks them: if a statement fails before, another one does, also
// COMMIT (pkg/executor/adapter.go:1139).
func (s situation) locksLate() bool { return s.txn == pessimistic && s.failed }

// hit says that a KILL may have hit the statement.
func (s situation) hit() bool { return s.killed }

// expectedErrors are the errors that clients have to expect.
var expectedErrors = []expectedError{
	{1062, "", func(s situation) bool { return s.is("INSERT", "ON DUPLICATE KEY", "UPDATE") }, "a value that another row has"},
	{1062, "", func(s situation) bool { return s.unverified() && (s.is("COMMIT") || s.locks()) }, "a value that was not looked for at once"},
	{1105, "old row not found", func(s situation) bool { return s.unverified() && s.writes() },
		"the transaction reads the entry that it has written itself, over a row that it does not see"},
	{1105, "[executor:1317]Query execution was interrupted", situation.hit,
		"TiDB frees the memory of a statement or transaction, done or not; the connection ends (pkg/server/conn.go:1042)"},
	{1205, "", func(s situation) bool { return s.locks() && s.impatient }, "a session that waits for a second only"},
	{1205, "", func(s situation) bool { return s.locksLate() && s.impatient }, "the keys of a statement that has failed are locked by the next"},
	{1213, "", situation.locks, "a deadlock"},
	{1213, "", situation.locksLate, "the keys of a statement that has failed are locked by the next"},
	{1305, "SAVEPOINT", func(s situation) bool { return s.is("ROLLBACK TO") && !s.savepoint }, "no savepoint was set"},
	{1317, "", situation.hit, "a KILL"},
	{3572, "", func(s situation) bool { return s.is("NOWAIT") && s.txn == pessimistic }, "a row that is locked"},
	{8022, "PessimisticLockNotFound", func(s situation) bool { return s.txn == pessimistic && s.is("COMMIT") },
		"client-go rolls back the locks of a statement that has failed, or was tried again after a conflict, in the background, also if the next one has taken them again"},
	{8133, "", func(s situation) bool { return s.unverified() && !s.is("COMMIT") },
		"the transaction reads the entry that it has written itself, over a row that it does not see"},
	{8133, "", func(s situation) bool { return s.txn == pessimistic && s.committed && s.locks() },
		"a row that was absent when the transaction looked for it (TestReadCommittedRemembersAbsentRows)"},
	{8141, "", func(s situation) bool { return s.txn == pessimistic && s.lazy && s.is("COMMIT") },
		"what it has written was wrong before it was looked at"},
	{9007, "", func(s situation) bool { return s.unverified() && s.is("COMMIT") }, "a conflict that is found at the commit"},
}

// lazyError is how an error begins that has ended a transaction whose checks are lazy.
const lazyError = "transaction aborted because lazy uniqueness check is enabled and an error occurred: "

// lazyErrors are the numbers of the errors that come without one after lazyError,
// apart from 1105.
var lazyErrors = map[string]uint16{"lock wait timeout": 1205, "context canceled": 1317}

// explain returns why an error is right, "" if nothing says so.
func explain(s situation, e *mysql.MySQLError) string {
	if cause, ok := strings.CutPrefix(e.Message, lazyError); ok && s.txn == pessimistic && s.lazy {
		if strings.HasPrefix(cause, "savepoint is not supported") && s.is("SAVEPOINT") {
			return "a savepoint in a transaction whose checks are lazy"
		}
		inner := &mysql.MySQLError{Number: 1105, Message: cause}
		if number, ok := lazyErrors[cause]; ok {
			inner.Number = number
		} else if _, rest, ok := strings.Cut(cause, ":"); ok && strings.HasPrefix(cause, "[") {
			if _, err := fmt.Sscanf(rest, "%d]", &inner.Number); err != nil {
				return ""
			}
		}
		return explain(s, inner)
	}
	for _, x := range expectedErrors {
		if x.number == e.Number && strings.Contains(e.Message, x.text) && x.when(s) {
			return x.why
		}
	}
	return ""
}

// explained names a kind of error for the summary.
func explained(kind, why string, e *mysql.MySQLError) string {
	return fmt.Sprintf("%s | %d | %s", kind, e.Number, why)
}
