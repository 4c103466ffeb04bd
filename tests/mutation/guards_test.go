package mutation

// guard is a set of tests that guard one part of an invariant, also where no mutation
// names them. The document lists them. A house rule checks that each exists, and
// TestMutationsFitTheCode those of other modules.
type guard struct {
	// invariant is as in mutations.
	invariant string
	// of is the part of the invariant.
	of string
	// tests are package.Test, in another module folder.Test, separated by white space.
	tests string
}

// row is the guard's line in the document.
func (g guard) row() string {
	return "| " + g.of + " | " + inCode(g.tests) + " |"
}

// guards are in the order of the document.
var guards = []guard{
	{"I1", "order of steps and who is waited for", "job.TestSteps job.TestUndoing job.TestRandomHistories"},
	{"I1", "waiting in a running server", "sql.TestStepsWaitForTransactions sql.TestUniqueDrain sql.TestBuildsOfATableRunInTurn sql.TestOldTransaction"},
	{"I1", "versions and diffs", "sql.TestUnwrittenDiff"},
	{"I1", "statements that TiDB does not ask", `
		sql.TestStatementsOutsideTheMetadataLock sql.TestPreparedStatementsAreInsideTheMetadataLock
		sql.TestDeletionOfExpiredRowsIsWaitedFor`},
	{"I1", "commits of unknown outcome", "sql.TestCommitOfUnknownOutcomeIsWaitedFor"},
	{"I1", "writers that the metadata lock misses", "sql.TestMissedWriterIsFoundBeforePublication sql.TestSeenWritersCauseNoComparison"},
	{"I1", "plans that TiDB keeps", "sql.TestPlansAreKeptWithTheirTables sql.TestPlansEndWithTheirTransaction"},
	{"I1", "through a client", "blackbox.TestFourTerminalsWithAReader blackbox.TestFourTerminalsWithAWriter blackbox.TestMetadataLockOff"},
	{"I1", "columns, and what a statement drops", "job.TestDropSteps job.TestRandomDrops sql.TestMixedStates sql.TestMixedWritesWhileColumnsGo"},
	{"I2", "S after write-reorg", "job.TestSteps sql.TestStepsWaitForTransactions sql.TestUncheckedTombstoneIsBeforeS"},
	{"I2", "imports of TiDB", `
		sql.TestSnapshotWaitsForImportInto sql.TestSnapshotWaitsForStatementsThatImport tests/cluster.TestImportFromSelectOnTiDB
		tests/cluster.TestServerThatDoesNotSayWhatItImports`},
	{"I2", "the barrier", "embedded.TestBuildsBarrier embedded.TestScansHaveABarrier"},
	{"I2", "readers against commits", `
		txn.TestReadersPushPrewrittenTransactions txn.TestReadersWaitForTheDisk txn.TestBank embedded.TestConformance
		pebblekv.TestConformanceInMemory`},
	{"I3", "entries at S below what DML writes", `
		backfill.TestConcurrentWritesShadowTheBuild backfill.TestRunBuildsWhatTheLibraryWould
		backfill.TestResumeFromEveryCheckpoint pebblekv.TestApplyAndLookup pebblekv.TestTombstonesAreAlwaysWritten
		txn.TestOneTransactionIsOneBatch sql.TestPlainIndexUnderWrites sql.TestBuildUnderWriters
		sql.TestOldTransaction`},
	{"I3", "no commit at S", "tikv.TestNoCommitAtTheTimestamp"},
	{"I3", "transactions that are open meanwhile", `
		sql.TestImportWaitsForOlderTransactions sql.TestUniqueTransactionsOverTheImport
		sql.TestUniqueTransactionsFromBeforeS sql.TestUniqueRetriedPrewrites sql.TestUniqueValueMovesBetweenRows
		sql.TestArrayGrowsDuringTheBuild`},
	{"I3", "every kind of table and index", "sql.TestKindsLikeTiDB"},
	{"I4", "the job's part", "sql.TestGarbageCollectionIsHeld sql.TestLostHold sql.TestLostHoldIsRecorded ddl.TestHoldIsRenewed"},
	{"I4", "the store's", `
		pebblekv.TestGCHoldsAndTransactions pebblekv.TestGCExpiredHold pebblekv.TestGCHoldRenewedLate
		pebblekv.TestGCImport pebblekv.TestGCModel pebblekv.TestTimelineSafePoint placement.TestGC
		embedded.TestGCWorker`},
	{"I4", "on a cluster", "tikv.TestReadsBelowSafePointFail tikv.TestHoldBelowOthersIsRefused tikv.TestConformance sql.TestHoldStaysAtS"},
	{"I5", "no one reads the index early", `
		job.TestSteps job.TestErrors sql.TestIndexIsReadFromItsPublication
		blackbox.TestOldTransactionsDoNotReadThroughTheIndex blackbox.TestOldSnapshotBehindTheIndex`},
	{"I5", "transactions that began during the build", "sql.TestTransactionsOfTheBuildDoNotReadThroughTheIndex sql.TestStatementsThatNameAnIndexThatIsBeingBuilt"},
	{"I5", "all of a statement at once", "sql.TestMixedUnderWriters sql.TestMixedLikeTiDB"},
	{"I5", "READ COMMITTED", "sql.TestReadCommittedReadsWithItsSchema sql.TestOldTransactionsDoNotTakePlansOfNewerSchemas"},
	{"I6", "values handed on", `
		sql.TestUniqueRepair sql.TestUniqueLegalMoves sql.TestUniqueLegalMovesAtEveryPlace
		sql.TestUniqueTransactionsOverTheImport sql.TestUniqueChecksAtTheEnd sql.TestUniqueRetriedPrewrites
		sql.TestUniqueValueMovesBetweenRows ingest.TestOlderEntriesAreNoDuplicates sql.TestLostHoldLeavesEntries
		backfill.TestLeftoversAreAccepted sql.TestBuildUnderWriters sql.TestRestartUnderWriters`},
	{"I6", "the drain", "job.TestSteps sql.TestUniqueDrain"},
	{"I6", "comparison and repair", `
		sql.TestComparisonRepeatsUntilClean sql.TestRepairLocksRows sql.TestRepairLeavesWhatWasWrittenSince
		sql.TestLocksAreSettledBeforeTheComparison sql.TestHoldLostBeforeTheComparison
		sql.TestShadowedEntriesAreDeleted backfill.TestCompareBySumsOfTheStore backfill.TestSharedSumsOfTheStore
		backfill.TestUnchangedRowsAreNotReadAgain backfill.TestChangedRowsAreReadAgain
		backfill.TestDamagedBuildsAreNotTakenForUnchanged sql.TestUnchangedRowsAreNotReadAgain tikv.TestCountUnchanged
		tikv.TestRecordsOfChecksum compare.TestShadowed tikv.TestShadowed tikv.TestCountOverClusteredKeys
		tests/cluster.TestUniqueOverClusteredKeys tikv.TestSettleLocks tikv.TestSettleLocksAwaitsCommits
		compare.TestCompareFindsEveryDifference compare.TestCompareFindsSharedKeysThatHaveAnEntry
		compare.TestSharedComparison compare.TestSharedComparisonMissesLostRows sql.TestNodesCompareTogether
		compare.TestRowsLostByTheScanAreMissed`},
	{"I6", "only what has changed", `
		compare.TestCompareSince compare.TestCompareSinceOfPartitions compare.TestCompareSinceManyChanges
		compare.TestCompareSinceUnseenChanges sql.TestUniqueIndexIsComparedInWhatWasWritten pebblekv.TestChanges
		pebblekv.TestChangesAfterGC`},
	{"I6", "duplicates", `
		sql.TestFailedUniqueIndexListsDuplicates sql.TestUniqueDuplicatesPastTheIndex sql.TestUniqueDuplicatesAtEveryPlace
		sql.TestUniqueDuplicateGoneBeforeItsRepair sql.TestUniqueDuplicateInOneOfSeveral
		sql.TestDeletedDuplicateDoesNotHideItsRow sql.TestUniqueDuplicateDuringBuild backfill.TestUniqueIndex
		ingest.TestDuplicatesAreFoundAcrossFlushes backfill.TestDuplicatesInDifferentParts
		sql.TestDuplicatesInPartsOfTwoNodes blackbox.TestDuplicatesOfDMLAreListed`},
	{"I6", "rechecks of duplicates", "sql.TestUniqueDuplicatesGoneSinceS sql.TestUniqueDuplicatesAtEachS"},
	{"I6", "entries of the wrong row", "sql.TestUpsertLeavesRowsOfOtherValuesAlone"},
	{"I6", "what one value is", "sql.TestUniqueValues sql.TestUniqueOverArrayAndColumnsTogether"},
	{"I6", "pairs that are imported twice", "sql.TestEntryImportedTwiceIsNoDuplicate"},
	{"I6", "NULLs", "sql.TestPrimaryKeyTakesNoNewNulls backfill.TestNullInPrimaryKey blackbox.TestAddPrimaryKeyOverAKill"},
	{"I7", "the undoing of a job", `
		job.TestUndoing job.TestRandomHistories sql.TestNothingIsLeftOfAFailedJob sql.TestLeftoversAreRemoved
		sql.TestCancel sql.TestKill sql.TestPermanentFaultsUndoTheJob backfill.TestCancelLeavesNothing blackbox.TestCancelLeavesNoTrace
		blackbox.TestKillAfterDiskQuota`},
	{"I7", "stuck or left behind", `
		sql.TestCancelDoesNotWaitForSlowWork sql.TestJobFailsWhenItsTempFolderIsGone sql.TestBuildBeginsAfterACancelledOne
		sql.TestIndexIsAddedAndDroppedRepeatedly`},
	{"I7", "IDs that are used again", `
		sql.TestIndexOfAnExchangedPartition sql.TestIndexThatWasFlashedBackKeepsItsNumber
		sql.TestUndoneAfterAFlashbackBesideOthers sql.TestUndoneAfterAFlashbackBesideTheSameStatement`},
	{"I7", "whole statements", "sql.TestMixedCancel sql.TestMixedRestart sql.TestMixedDeletesWhatItDropped"},
	{"I7", "tables that are made like the job's", "sql.TestTableLikeOneThatGetsAnExpressionIndex"},
	{"I7", "tables that get another ID or database", "sql.TestBuildIsUndoneAfterItsTableMoved sql.TestDropsAreDoneAfterTheirTableMoved"},
	{"I7", "tables that are brought back", "sql.TestRecoverWhatWasDroppedDuringABuild"},
	{"I8", "the queue row, the record and the folder", `
		sql.TestQueueRow sql.TestQueueRowTakenDuringTheWait sql.TestTakenRowEndsTheImport sql.TestRepairIsFenced
		sql.TestJobStopsWhenItsRecordIsTaken pebblekv.TestOpenTwice pebblekv.TestOpenElsewhere blackbox.TestRefusesAStoreInUse`},
	{"I8", "several nodes", `
		sql.TestJobsAreTakenOver sql.TestLateOwnerTouchesNothing sql.TestLateOwnerDoesNotImport sql.TestLateOwnerDoesNotRepair
		sql.TestOneNodeTakesOverAJob sql.TestHoldStaysAtS sql.TestNodeRejoinsAfterPartition lightning.TestLostPermitEndsTheRetries
		member.TestLeaseEndsHereFirst member.TestStoppedProcess member.TestRemovedKey`},
	{"I8", "imports of a late owner", `
		tikv.TestFence sstimport.TestFence sstimport.TestLeaseIsAsked sstimport.TestLostLeaseEndsTheImport
		sstimport.TestPermitIsTheLease sstimport.TestRandomFaults sstimport.TestRandomFailures`},
	{"I8", "divided builds", `
		dist.TestRandomHistories sql.TestSharedBuildSurvivesALostNode sql.TestLateNodeTouchesNothing sql.TestUndoWaitsForParts
		sql.TestControlOfSharedBuilds sql.TestOwnerOfSharedBuildIsLost sql.TestSharedComparisonIsInterrupted
		sql.TestOwnerOfSharedComparisonIsLost`},
	{"I8", "on a cluster", `
		tests/cluster.TestNodesShareABuild tests/cluster.TestBuilderIsKilled tests/cluster.TestBuilderIsStopped
		tests/cluster.TestBuilderLosesEtcd tests/cluster.TestRollingRestart tests/cluster.TestTakeoverBesideTiDB
		tests/cluster.TestTiDBHoldsAnOldSchema tests/cluster.TestRandom`},
	{"I8", "when it is public", "sql.TestMixedQueueRow"},
	{"one batch", "transactions, readers and crashes", `
		txn.TestOneTransactionIsOneBatch txn.TestReadersWaitForTheDisk txn.TestLateRequestsOfRolledBackTransactions
		txn.TestMissingLocksAreAmendedWithCare txn.TestConflictsWithWhatWasOnlyLocked txn.TestBank txn.TestBankCrash
		embedded.TestConformance embedded.TestReopen pebblekv.TestCrash compare.TestEmbeddedAnswersLikeUnistore
		blackbox.TestKillUnderWritesLosesNothing`},
	{"all or nothing", "statements that do more than adding indexes", `
		sql.TestMixedLikeTiDB sql.TestMixedErrors sql.TestTablesThatTakeNoIndexes sql.TestMixedLeftToTiDB
		sql.TestMixedStatementsRunInTurn sql.TestMixedForeignKeyInTurn sql.TestMixedCancel sql.TestMixedRestart
		blackbox.TestKillsDuringMixedAlter`},
	{"isolation", "the store", `
		histories.TestHistories histories.TestConflictsWithCommitsDuringThePrewrite
		histories.TestNewestReadsAreDurable histories.TestNewestReadsAreNotBehindOthers
		txn.TestNewestReadsSeeWhatIsDurable histories.TestCommitThatWasForgottenIsNotDenied
		histories.TestUnansweredRequestEndsItsStream`},
	{"isolation", "the checker", `
		histories.TestGoodHistoriesPass histories.TestBadHistoriesAreNamed histories.TestLostUpdateIsNamed
		histories.TestTimes histories.TestRegister histories.TestForks histories.TestRandomHistories`},
	{"isolation", "through SQL", "blackbox.TestAnomalies blackbox.TestReadersNeverGoBack"},
	{"verification", "what a build has got wrong", `
		backfill.TestPartsMakeTheWhole backfill.TestSharedBuildIsRepairedOnce
		backfill.TestRowsLostByTheBuildsScanAreMissed backfill.TestDamageIsRepairedOnceAndThenReported
		backfill.TestForeignEntryIsReported backfill.TestSpotCheck backfill.TestSumsAreLeftToTheComparison
		backfill.TestDifferenceHasTheBuildVerified backfill.TestLostRowsShowInTheComparison
		backfill.TestSpotCheckHasTheBuildVerified sql.TestBuildIsVerifiedByTheComparison
		sql.TestRestartBeforeTheBuildIsVerified job.TestVerifyBuild equality.TestEveryTypeAndCollation
		sql.TestKindsLikeTiDB`},
	{"verification", "the embedded store's scans", `
		pebblekv.TestVisitedCountsRowsThatABatchHasLost pebblekv.TestScansTileTheirRange pebblekv.TestVisitedIsTheRowsOfEachBatch
		pebblekv.TestConformanceInMemory`},
	{"verification", "the embedded store's files", `
		pebblekv.TestFlippedBitOfAUnitIsFound pebblekv.TestUnitsAreComparedWithTheirFiles pebblekv.TestEndedCheckIsNoDamage
		pebblekv.TestFilesThatAreSwappedBeforeTheirImport pebblekv.TestReportsOfImports pebblekv.TestImportsMatchTheirReports
		lightning.TestFailedImportLeavesNoFile backfill.TestDamagedFilesAreBuiltAgainOnce ddl.TestDamageIsPermanent`},
	{"verification", "what stores of a cluster have read and taken", `
		tikv.TestLostRowsAreNoticed tikv.TestAnswersWithoutDetails tikv.TestPagesTileTheRange tikv.TestScanOfRegionsThatChange
		tikv.TestScanMeetsLocks tikv.TestSubrangesGiveAllRows sstimport.TestAccountAddsUp sstimport.TestUnitsAreCompleteOneByOne
		sstimport.TestAnswersToWrite sstimport.TestImportThatDoesNotAddUp sstimport.TestRandomFaults`},
	{"verification", "the chain of proof", `
		backfill.TestProvenBuildReadsASample backfill.TestAutoReadsEverythingWhereAProofIsMissing backfill.TestAutoReadsWhatBuildsDoNotSee
		backfill.TestRowsThatTheScanHasNotReturnedAreMissed backfill.TestScanOutsideItsRangeIsAnError
		backfill.TestTilingFindsRangesThatAreNotScannedOnce backfill.TestRangeThatNoWorkerHasIsMissed backfill.TestRowsWithoutEntriesAreMissed
		backfill.TestEntriesFromBeforeTheImportAreFound backfill.TestLostUnitIsMissed backfill.TestSampleFindsDamage backfill.TestSampleIsChosenEvenly
		backfill.TestProvenBuildIsDividedAmongNodes backfill.TestProvenBuildSurvivesCrashes ingest.TestWhatIsWrittenIsWhatWasAppended
		ingest.TestLostEntriesAreNotImported lightning.TestFileWithFewerPairsIsNotImported sql.TestVerifyOfTheSession`},
	{"verification", "the tests' other store", "sql.TestUnistoreBuilds"},
	{"formats", "a store of format 2 that kill -9 left, with a paused job", "blackbox.TestFormats"},
	{"formats", "formats that are refused", "pebblekv.TestOpenNotAStore"},
	{"all of it", "every interleaving of I1 to I8, with mutations of each", "simulation.TestMutationsAreFound simulation.TestHistories simulation.TestFirstHistories"},
	{"all of it", "random statements, schema changes and kills", "crash.TestKillsUnderRandomLoad"},
	{"all of it", "build workers that are killed and stopped", "crash.TestBuildWorkersUnderRandomLoad"},
	{"all of it", "the same beside faults of clock, disk, files and descriptors", "crash.TestFaultsUnderRandomLoad"},
	{"all of it", "the assertions of the code", "ddl.TestAssertions"},
	{"all of it", "a death at each place of a job", "sql.TestRestart"},
	{"all of it", "deaths at one place after the other", "sql.TestBuildSurvivesRepeatedCrashes"},
	{"all of it", "the row count that is shown", "sql.TestProgressCountsRowsOfAllPartitionsOnce"},
	{"When a build works", "windows and clocks that are set", "job.TestWindowOverMidnight job.TestWindowWhenTheClockIsSet job.TestRandomWindows"},
	{"When a build works", "steps of jobs that are parked or wait for their publication", `
		job.TestClosedWindow job.TestManualPublication job.TestPermissionTakenBack job.TestRandomHistories`},
	{"When a build works", "jobs in a running server", `
		sql.TestWindow sql.TestMaxHold sql.TestManualPublication sql.TestPublicationInTheWindow sql.TestRandomSchedules`},
	{"backups", "one timestamp, under load", "pebblekv.TestCheckpointUnderLoad backup.TestTakeUnderLoad"},
	{"backups", "through a client, beside builds and kills", "blackbox.TestBackup blackbox.TestBackupsAtRandomMoments blackbox.TestBackupPrivileges"},
	{"backups", "folders that are neither", "pebblekv.TestCheckpointIsNoStore backup.TestRestoreIsRefused backup.TestMetadataAreChecked"},
	{"backups", "what a crash or a full disk leaves", "pebblekv.TestOneCheckpointAtATime pebblekv.TestCheckpointOnAFullDisk"},
	{"build workers", "random tables, ends at random moments, one round or several", `
		worker.TestWorkersBuildRandomTables worker.TestWorkersEndAtRandomMoments worker.TestUniqueIndexesOverSeveralRounds`},
	{"build workers", "memory, silence, cancelling", "worker.TestHungryWorkersHaveHalf worker.TestSilentWorkersAreEnded worker.TestCancelledBuildsEndTheirWorker"},
	{"build workers", "files of other processes", "pebblekv.TestUnitsOfOtherProcesses pebblekv.TestCheckpointNames"},
	{"ctl", "random servers, networks and users", "ctl.TestFollowerNeverLies ctl.TestDoneIsTheServersWordOnly"},
	{"ctl", "the binary on a terminal, beside a server that is killed", "blackbox.TestCtl blackbox.TestCtlOnATerminal"},
}
