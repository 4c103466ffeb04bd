package simulation

import "fastddl/ddl/job"

// mutant is a change of the protocol that breaks it in one place.
type mutant uint8

const (
	noMutant mutant = iota

	// I1
	deleteOnlyNotAwaited
	beginsWriteOnly
	undoneAtOnce
	missingDiffPassed
	reportsIgnoreTransactions
	oneServerAwaited
	resumeForgetsToWait
	publicNotAwaited
	writeOnlyNotAwaited
	// I2
	reorgNotAwaited
	snapshotBeforeTheWait
	noBarrier
	underWayNotAwaited
	commitBelowMinimum
	// I3
	scanAnotherTime
	lastCommitsUnseen
	importAtAnotherTime
	tombstonesDropped
	deletionsSkipped
	olderNotAwaited
	// I4
	nothingHeld
	holdNotRenewed
	holdDroppedEarly
	holdMovesTooEarly
	lostHoldIgnored
	lossForgotten
	holdsPassed
	lateImportsAccepted
	tombstonesCollected
	// I5
	publishedBeforeTheImport
	reorgIsRead
	readsWhatWasPublishedLater
	staleReadsUseTheNewestSchema
	undoneAfterPublication
	// I6
	drainOmitted
	drainNotAwaited
	comparisonOmitted
	comparedAtS
	differencesIgnored
	firstListBelieved
	repairsWithoutLocks
	repairFromOldRows
	claimsOfTwoTimes
	writtenKeysRepaired
	firstOfTwoWins
	duplicatesAtSIgnored
	storedTakenForImported
	entriesTrusted
	collectedTrusted
	leftoversTrusted
	locksNotSettled
	shadowsLeft
	// I7
	entriesForgotten
	undoNotAwaited
	holdStays
	filesStay
	rowStays
	idsUsedAgain
	cancelForgotten
	// I8
	takenRowIgnored
	recordsOverwritten
	repairNotFenced
	turnNotAwaited
	undoneWithoutRow
	publicJobGivesUp
)

// mutantMachine is the product's machine with steps left out or put in another order.
type mutantMachine struct {
	*job.Machine
	mutant mutant
}

// machineOf wraps a machine if the mutation in force is one of machines.
func (w *world) machineOf(m *job.Machine) machine {
	if w.mutant == noMutant {
		return m
	}
	return &mutantMachine{m, w.mutant}
}

// unawaited are the steps whose schema version is not waited for.
var unawaited = map[mutant]job.Step{
	deleteOnlyNotAwaited: job.StepDeleteOnly, writeOnlyNotAwaited: job.StepWriteOnly, reorgNotAwaited: job.StepWriteReorg,
	publicNotAwaited: job.StepPublic, drainNotAwaited: job.StepDrained, undoNotAwaited: job.StepUndone,
}

// Next leaves out what a mutation leaves out.
func (m *mutantMachine) Next() (job.Action, job.Step) {
	for {
		act, to := m.Machine.Next()
		step, omits := unawaited[m.mutant]
		switch {
		case act == job.ActAwaitVersion && omits && m.Record().Step == step, act == job.ActRepublish && m.mutant == resumeForgetsToWait:
			m.Waited()
		case act == job.ActAwaitTurn && m.mutant == turnNotAwaited:
			m.HasTurn()
		case act == job.ActAwaitOlder && m.mutant == olderNotAwaited:
			m.AwaitedOlder()
		default:
			return m.replace(act, to)
		}
	}
}

// replace puts another step in the place of one.
func (m *mutantMachine) replace(act job.Action, to job.Step) (job.Action, job.Step) {
	if act == job.ActPark || act == job.ActSleep || act == job.ActAwaitVersion || act == job.ActRepublish {
		return act, to
	}
	switch {
	case m.mutant == beginsWriteOnly && to == job.StepDeleteOnly:
		return act, job.StepWriteOnly
	case m.mutant == undoneAtOnce && to == job.StepUndoDeleteOnly:
		return act, job.StepUndone
	case m.mutant == publishedBeforeTheImport && to == job.StepBackfilled:
		return job.ActChangeSchema, job.StepPublic
	case m.mutant == drainOmitted && to == job.StepDrained:
		return job.ActCompare, job.StepCompared
	case m.mutant == comparisonOmitted && to == job.StepCompared:
		return job.ActChangeSchema, job.StepPublic
	}
	return act, to
}

// Failed undoes what is public if the mutation says so.
func (m *mutantMachine) Failed(err error, limit int64) bool {
	if m.mutant != undoneAfterPublication || m.Record().Step != job.StepPublic {
		return m.Machine.Failed(err, limit)
	}
	back := clone(m.Record())
	back.Step = job.StepCompared
	m.Reached(back)
	m.RollBack(err)
	return false
}

// mutation is an entry of the list.
type mutation struct {
	mutant
	// invariant is what it breaks, and breaks says how.
	invariant, breaks string
	// shows is how the finding begins.
	shows string
	// promise: users would see it, without a check of the invariant.
	promise bool
	// more are events that come more often than usual in its search.
	more []eventKind
}

var mutations = []mutation{
	{deleteOnlyNotAwaited, "I1", "delete-only is not waited for", "I1: txn", true, nil},
	{beginsWriteOnly, "I1", "an index begins write-only", "I1: txn", true, nil},
	{undoneAtOnce, "I1", "an index that is undone goes from write-reorg to none", "I1: txn", false, nil},
	{missingDiffPassed, "I1", "a version is taken while the diff of the one before is missing", "I1: server", false, nil},
	{reportsIgnoreTransactions, "I1", "servers report without a look at their transactions", "I1: txn", true, nil},
	{oneServerAwaited, "I1", "one server is waited for, not all", "I1: txn", true, nil},
	{resumeForgetsToWait, "I1", "a job that was loaded again does not wait", "I1: txn", true, nil},
	{writeOnlyNotAwaited, "I1", "write-only is not waited for", "I1: txn", false, nil},
	{publicNotAwaited, "I1", "an index is dropped while transactions still read it", "I1: txn", false, nil},

	{reorgNotAwaited, "I2", "S is taken before write-reorg is waited for", "I2: S is taken", false, nil},
	{snapshotBeforeTheWait, "I2", "S is the time at which write-only was published", "I2: S = ", true, nil},
	{noBarrier, "I2", "nothing keeps prewritten transactions from committing below S", "I2: a row", true, nil},
	{underWayNotAwaited, "I2", "commits that are under way are not waited for", "I2: a row", true, nil},
	{commitBelowMinimum, "I2", "a commit below the least commit timestamp is not refused", "promise: ", true, nil},

	{scanAnotherTime, "I3", "the rows are scanned at another time than S", "I3: the job fails for nothing", true, nil},
	{lastCommitsUnseen, "I3", "the last commits before S are not seen", "I3: the job fails for nothing", true, nil},
	{importAtAnotherTime, "I3", "the entries are imported at the time of the import", "I3: the job fails for nothing", true, nil},
	{tombstonesDropped, "I3", "tombstones of entries that are not there are dropped", "I3: at", true, nil},
	{deletionsSkipped, "I3", "deletions leave an index alone that is in write-reorg", "I3: at", true, nil},
	{olderNotAwaited, "I3", "the import does not wait for transactions that began before S", "I3: txn", false, nil},

	{nothingHeld, "I4", "S is used without a hold", "I4: the job fails for nothing", true, nil},
	{holdNotRenewed, "I4", "the hold is not renewed", "I4: the job fails for nothing", true, []eventKind{evTick, evCollect, evKeeper}},
	{holdDroppedEarly, "I4", "the hold is released when S is recorded", "I4: the job fails for nothing", true, nil},
	{holdMovesTooEarly, "I4", "the hold moves on when the import begins", "I4: the job fails for nothing", true, nil},
	{lostHoldIgnored, "I4", "a job whose hold was lost uses its S again", "I4: the job fails for nothing", false, []eventKind{evTick, evCollect}},
	{
		lossForgotten, "I4", "a job uses its lost S again if the loss could not be recorded", "I4: the job fails for nothing", false,
		[]eventKind{evTick, evCollect, evFault},
	},
	{holdsPassed, "I4", "the safe point passes holds", "I4: the job fails for nothing", true, nil},
	{lateImportsAccepted, "I4", "an import below the safe point is accepted", "I4: entries", true, []eventKind{evTick, evCollect}},
	{tombstonesCollected, "I4", "tombstones above the safe point are collected", "", true, nil},

	{publishedBeforeTheImport, "I5", "an index becomes public before its entries are there", "I5: index", true, nil},
	{reorgIsRead, "I5", "write-reorg is read like public", "I5: index", true, nil},
	{readsWhatWasPublishedLater, "I5", "a transaction reads what was published after it began", "I5: index", true, nil},
	{staleReadsUseTheNewestSchema, "I5", "a read of the past uses the present schema", "I5: index", true, nil},
	{undoneAfterPublication, "I5", "an index is undone after its publication", "I5: index", false, nil},

	{drainOmitted, "I6", "the drain is omitted", "promise: ", true, nil},
	{drainNotAwaited, "I6", "the drain is published and not waited for", "promise: ", true, nil},
	{comparisonOmitted, "I6", "the comparison is omitted", "promise: ", true, nil},
	{comparedAtS, "I6", "rows and index are compared at S", "promise: ", true, nil},
	{differencesIgnored, "I6", "differences are ignored", "promise: ", true, nil},
	{firstListBelieved, "I6", "the first list of differences is believed", "promise: ", true, nil},
	{repairsWithoutLocks, "I6", "a repair locks neither rows nor key", "I6: at", true, nil},
	{repairFromOldRows, "I6", "a repair writes what the rows were at T", "I6: at", false, nil},
	{claimsOfTwoTimes, "I6", "rows of two times are a duplicate", "promise: 1062", true, nil},
	{writtenKeysRepaired, "I6", "a repair decides a key that was written since the comparison", "I6: at", false, nil},
	{firstOfTwoWins, "I6", "of two rows with one value one has the entry", "I6: the job fails for nothing", true, nil},
	{duplicatesAtSIgnored, "I6", "of two rows with one value at S one has the entry", "I3: the job fails for nothing", false, nil},
	{
		storedTakenForImported, "I6", "what the store has at S is taken for what was imported at S", "promise: 1062", true,
		[]eventKind{evTick, evCollect},
	},
	{entriesTrusted, "I6", "rows that have not changed are enough to compare nothing", "promise: ", true, nil},
	{
		collectedTrusted, "I6", "versions that may have been collected are taken for none", "promise: ", true,
		[]eventKind{evTick, evCollect},
	},
	{
		leftoversTrusted, "I6", "nothing is compared where entries of an older S may be", "promise: ", true,
		[]eventKind{evTick, evCollect},
	},
	{locksNotSettled, "I6", "rows and index are compared while locks of transactions that have committed are left", "promise: ", true, nil},
	{shadowsLeft, "I6", "an entry that no row gives stays because a LOCK record hides it", "promise: ", true, nil},

	{entriesForgotten, "I7", "the entries of an index that was undone are not handed to garbage collection", "I7: index", false, nil},
	{undoNotAwaited, "I7", "a job ends while transactions still write its indexes", "I7: the job ends", false, nil},
	{holdStays, "I7", "the hold stays", "I7: a hold", false, nil},
	{filesStay, "I7", "the files stay", "I7: files", false, nil},
	{rowStays, "I7", "the row in TiDB's queue stays", "I7: the job's row", false, nil},
	{idsUsedAgain, "I7", "index IDs are used again", "", true, nil},
	{cancelForgotten, "I7", "a cancel is accepted and forgotten", "I7: a cancel", false, nil},

	{takenRowIgnored, "I8", "a job goes on whose row in TiDB's queue was taken", "I8: builder", false, nil},
	{recordsOverwritten, "I8", "a record of another revision is overwritten", "I8: builder", false, nil},
	{repairNotFenced, "I8", "a repair does not look whether the job is still its own", "I8: builder", false, []eventKind{evTakeRow}},
	{turnNotAwaited, "I8", "a job does not wait for earlier jobs on the table", "I8: builder", false, nil},
	{
		publicJobGivesUp, "I8", "a job that is public gives up when its row is taken", "promise: the job does not end", true,
		[]eventKind{evTakeRow, evCrash},
	},
	{undoneWithoutRow, "I8", "a job is undone without a row in the queue", "I8: builder", false, nil},
}
