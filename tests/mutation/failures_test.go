package mutation

import "strings"

// failure is something that users of another system have met when they built an index online.
type failure struct {
	// kind is the heading.
	kind string
	// what happened, and where it was reported: a repository with the number of its issue or pull
	// request, or MySQL's bug list.
	what, where string
	// tests show that it does not happen here: package.Test, separated by white space.
	tests string
}

// row is the failure's line in its document.
func (f failure) row() string {
	return "| " + f.what + " | " + f.where + " | " + inCode(f.tests) + " |"
}

// inCode returns the words as a list of code.
func inCode(words string) string {
	return "`" + strings.Join(strings.Fields(words), "`, `") + "`"
}

// failures are in the order of their document.
var failures = []failure{
	{
		"False duplicates", "a value deleted from one row and given to another while the index is merged (REPLACE, for example) is a duplicate",
		"pingcap/tidb#56161",
		"sql.TestUniqueLegalMoves",
	},
	{
		"False duplicates", "a row is deleted and another inserted with its value, in one transaction, after the backfill took its time",
		"yugabyte/yugabyte-db#30312",
		"sql.TestUniqueLegalMoves sql.TestUniqueTransactionsOverTheImport",
	},
	{
		"False duplicates", "a writer is refused for the stale entry of a value that was free already",
		"cockroachdb/cockroach#75663",
		"sql.TestUniqueLegalMovesAtEveryPlace",
	},
	{
		"False duplicates", "after a restart the entries that were imported before are duplicates of themselves",
		"pingcap/tidb#62285, pingcap/tidb#41630",
		"sql.TestEntryImportedTwiceIsNoDuplicate backfill.TestResumeFromEveryCheckpoint",
	},
	{
		"False duplicates", "an array's element is taken for a handle when two unique indexes are built at once: 1062, or a job that never ends",
		"pingcap/tidb#69660",
		"sql.TestUniqueOverArrayAndColumnsTogether",
	},
	{
		"False duplicates", "an insertion that is rolled back, or refused, beside the ALTER fails it",
		"MySQL bugs #76895, #98600, #104626",
		"sql.TestUniqueTransactionsOverTheImport sql.TestUniqueDuplicatesAtEveryPlace",
	},
	{
		"False duplicates", "rows are read twice when the scan goes on after a pause beside insertions",
		"percona/percona-server#5361",
		"backfill.TestConcurrentWritesShadowTheBuild sql.TestBuildUnderWriters",
	},
	{
		"Duplicates that are not found", "duplicates in ranges that different workers read",
		"pingcap/tidb#38803",
		"backfill.TestDuplicatesInDifferentRanges ingest.TestDuplicatesAreFoundAcrossFlushes",
	},
	{
		"Duplicates that are not found", "duplicates that DML writes during the build",
		"MySQL bug #67500",
		"sql.TestUniqueDuplicatesPastTheIndex sql.TestUniqueDuplicatesAtEveryPlace",
	},
	{
		"Duplicates that are not found", "rows with one value are silently merged into one",
		"github/gh-ost#167, github/gh-ost#485, github/gh-ost#1636",
		"sql.TestUniqueDuplicatesPastTheIndex sql.TestUniqueDuplicatesAtEveryPlace",
	},
	{
		"Duplicates that are not found", "a duplicate that was deleted again hides the entry of its row, so that the next duplicate is accepted",
		"pingcap/tidb#40730",
		"sql.TestDeletedDuplicateDoesNotHideItsRow",
	},
	{
		"Lost entries", "a duplicate that comes and goes in write-only takes the entry of the other row with it",
		"pingcap/tidb#40464",
		"sql.TestUniqueRepair sql.TestUniqueLegalMovesAtEveryPlace",
	},
	{
		"Lost entries", "a value wanders through rows before the scan and before the import",
		"pingcap/tidb#60339",
		"sql.TestUniqueValueMovesBetweenRows",
	},
	{
		"Lost entries", "an array or document grows during the build; the entry of what stayed in it is lost",
		"cockroachdb/cockroach#76959",
		"sql.TestArrayGrowsDuringTheBuild",
	},
	{
		"Lost entries", "an update to the value that is there already is left out, and shadowed by the merge",
		"cockroachdb/cockroach#143267",
		"sql.TestUniqueLegalMoves sql.TestPlainIndexUnderWrites",
	},
	{
		"Lost entries", "the process dies while it imports",
		"pingcap/tidb#47981",
		"blackbox.TestKillDuringAddIndex backfill.TestResumeFromEveryCheckpoint",
	},
	{
		"Lost entries", "the job changes hands twice or more",
		"pingcap/tidb#44619, pingcap/tidb#43997",
		"sql.TestBuildSurvivesRepeatedCrashes",
	},
	{
		"Lost entries", "servers restart one after the other under load",
		"pingcap/tidb#53910",
		"sql.TestRestartUnderWriters crash.TestKillsUnderRandomLoad",
	},
	{
		"Lost entries", "a paused job skips rows when it is resumed, because a part was reported done too early",
		"cockroachdb/cockroach#153583",
		"sql.TestPauseResume backfill.TestResumeFromEveryCheckpoint",
	},
	{
		"Lost entries", "a second pause forgets what was done before the first",
		"cockroachdb/cockroach#140358",
		"backfill.TestResumeFromEveryCheckpoint",
	},
	{
		"Lost entries", "the index has fewer entries than the table has rows, unnoticed",
		"cockroachdb/cockroach#18533",
		"backfill.TestRowsLostByTheBuildsScanAreMissed compare.TestRowsLostByTheScanAreMissed",
	},
	{
		"Stuck jobs", "a job cannot be cancelled while it imports",
		"pingcap/tidb#39468",
		"sql.TestCancel",
	},
	{
		"Stuck jobs", "a job is cancelled before its workers run, and all DDL hangs",
		"pingcap/tidb#8171",
		"sql.TestCancel sql.TestBuildsOfATableRunInTurn",
	},
	{
		"Stuck jobs", "cancelling waits for a reader that does not look",
		"pingcap/tidb#61087",
		"backfill.TestCancelLeavesNothing compare.TestCompareObeysItsContext",
	},
	{
		"Stuck jobs", "cancelling waits for a write that is throttled",
		"pingcap/tidb#57325",
		"sql.TestCancelDoesNotWaitForSlowWork",
	},
	{
		"Stuck jobs", "a panic while the job is undone is met again and again",
		"pingcap/tidb#23202",
		"sql.TestPermanentFaultsUndoTheJob job.TestRandomHistories",
	},
	{
		"Stuck jobs", "the temp folder is missing, and the job, with all DDL behind it, waits for ever",
		"pingcap/tidb#45456, pingcap/tidb#45624",
		"sql.TestJobFailsWhenItsTempFolderIsGone backfill.TestTempFolderRemoved",
	},
	{
		"Stuck jobs", "the job never ends after a restart, or the server does not start",
		"pingcap/tidb#47902",
		"sql.TestRestart blackbox.TestKillDuringAddIndex",
	},
	{
		"Stuck jobs", "after some hundred indexes were added and dropped the next hangs",
		"pingcap/tidb#58344",
		"sql.TestIndexIsAddedAndDroppedRepeatedly",
	},
	{
		"Stuck jobs", "the merge never catches up with the writers (there is none here)",
		"cockroachdb/cockroach#79148",
		"blackbox.TestAddIndexUnderLoad",
	},
	{
		"Hangs behind idle transactions", "DDL waits for a transaction that no one ends",
		"pingcap/tidb#39017",
		"blackbox.TestIdleBlockersAreEnded sql.TestBlockersAreShownAndEnded",
	},
	{
		"Hangs behind idle transactions", "a job that is undone waits for a transaction, and nothing says so",
		"pingcap/tidb#53539",
		"sql.TestCancelDoesNotWaitForSlowWork blackbox.TestControlOfAWaitingJob",
	},
	{
		"Left behind", "a cancelled job still holds what the next one needs",
		"pingcap/tidb#44205, pingcap/tidb#61692",
		"sql.TestBuildBeginsAfterACancelledOne",
	},
	{
		"Left behind", "writers of a cancelled job go on, or panic",
		"pingcap/tidb#53843",
		"backfill.TestCancelLeavesNothing sql.TestCancel",
	},
	{
		"Left behind", "the files of a cancelled job are removed under it, which ends the process",
		"pingcap/tidb#65958",
		"blackbox.TestCancelLeavesNoTrace sql.TestLeftoversAreRemoved",
	},
	{
		"Left behind", "a failed ADD UNIQUE changes what the table shows",
		"matrixorigin/matrixone#26804",
		"sql.TestUniqueDuplicatesPastTheIndex sql.TestNothingIsLeftOfAFailedJob",
	},
	{
		"Left behind", "the job goes on when its session is gone, and cancelling it takes for ever",
		"cockroachdb/cockroach#33158",
		"blackbox.TestJobOutlivesItsClient blackbox.TestKillQueryCancelsTheJob",
	},
	{
		"Wrong progress", "rows of the last partition only are counted",
		"pingcap/tidb#43586",
		"sql.TestProgressCountsRowsOfAllPartitionsOnce",
	},
	{
		"Wrong progress", "no rows are counted for the second index of a statement",
		"pingcap/tidb#44682",
		"sql.TestProgressCountsRowsOfAllPartitionsOnce",
	},
	{
		"Wrong progress", "the row count goes back after a restart, or stays 0",
		"pingcap/tidb#44044, cockroachdb/cockroach#164182",
		"backfill.TestProgressNeverGoesBack",
	},
	{
		"The index is used too early", "a transaction at READ COMMITTED reads with the schema of its beginning what was written since",
		"pingcap/tidb#21498",
		"sql.TestReadCommittedReadsWithItsSchema blackbox.TestOldTransactionsDoNotReadThroughTheIndex",
	},
	{
		"The index is used too early", "after a crash between writing a schema and announcing it the next state is written, and a server is two states behind",
		"pingcap/tidb#37209",
		"job.TestRandomHistories sql.TestRestart",
	},
	{
		"Garbage collection under a build", "the snapshot of the build is collected",
		"pingcap/tidb#40074, pingcap/tidb#57043",
		"sql.TestGarbageCollectionIsHeld ddl.TestHoldIsRenewed",
	},
	{
		"Garbage collection under a build", "a build whose snapshot was collected tries it again for ever",
		"cockroachdb/cockroach#98311, cockroachdb/cockroach#126260",
		"sql.TestLostHold",
	},
	{
		"Garbage collection under a build", "the check after the build takes longer than garbage collection waits",
		"cockroachdb/cockroach#84911",
		"ddl.TestHoldIsRenewed sql.TestGarbageCollectionIsHeld",
	},
}
