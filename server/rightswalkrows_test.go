package server

import "slices"

// walkFixture makes two schemas alike.
var walkFixture = []string{
	"CREATE DATABASE a1", "CREATE DATABASE b1",
	"CREATE TABLE a1.t (a INT PRIMARY KEY, b INT, c DATETIME, KEY ib (b), KEY ic (c))",
	"CREATE TABLE b1.t (a INT PRIMARY KEY, b INT, c DATETIME, KEY ib (b), KEY ic (c))",
	"CREATE TABLE a1.p (a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
	"CREATE TABLE b1.p (a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
	"CREATE TABLE a1.e (a INT PRIMARY KEY, b INT)", "CREATE TABLE b1.e (a INT PRIMARY KEY, b INT)",
	"CREATE SEQUENCE a1.s", "CREATE SEQUENCE b1.s",
	"CREATE VIEW a1.v AS SELECT 1", "CREATE VIEW b1.v AS SELECT 1",
	"CREATE TABLE a1.d (a INT DEFAULT (NEXT VALUE FOR b1.s), b INT)",
	"CREATE PLACEMENT POLICY pol FOLLOWERS = 1", "CREATE RESOURCE GROUP rg RU_PER_SEC = 1000",
	"CREATE USER other", "CREATE ROLE r", "INSERT INTO b1.t (a) VALUES (1)",
}

// need returns rows of statements that need the same rights.
func need(needs string, statements ...string) (rows []statementRights) {
	for _, sql := range statements {
		rows = append(rows, statementRights{sql: sql, needs: needs})
	}
	return rows
}

// refused returns rows of statements that fail for all users.
func refused(why string, statements ...string) (rows []statementRights) {
	for _, sql := range statements {
		rows = append(rows, statementRights{sql: sql, refused: why})
	}
	return rows
}

const (
	noStatement = "a part of statements, or no statement of TiDB's grammar"
	ownSession  = "changes the client's own session or transaction only"
	byKind      = "by its kinds, below"
	unsupported = "TiDB does not support it"
	noTable     = "shows what belongs to no table, to everybody, as in MySQL"
	ownRows     = "shows what the user may see"
)

// walkHarmless are the kinds of statements that need no right, and why.
var walkHarmless = map[string]string{
	"AdminStmt": byKind, "ShowStmt": byKind, "AlterTableStmt": byKind,

	"SimpleWhenThenStmt": noStatement, "SimpleCaseStmt": noStatement, "SearchWhenThenStmt": noStatement, "SearchCaseStmt": noStatement,
	"ProcedureRepeatStmt": noStatement, "ProcedureWhileStmt": noStatement, "ProcedureBlock": noStatement,
	"ProcedureIfInfo": noStatement, "ProcedureIfBlock": noStatement, "ProcedureElseBlock": noStatement, "ProcedureElseIfBlock": noStatement,
	"ProcedureErrorCondition": noStatement, "ProcedureOpenCur": noStatement, "ProcedureCloseCur": noStatement,
	"ProcedureFetchInto": noStatement, "ProcedureLabelBlock": noStatement, "ProcedureLabelLoop": noStatement, "ProcedureJump": noStatement, "ChangeStmt": noStatement,
	"QueryWatchOption": noStatement, "DynamicCalibrateResourceOption": noStatement,

	"BeginStmt": ownSession, "CommitStmt": ownSession, "RollbackStmt": ownSession, "SavepointStmt": ownSession, "ReleaseSavepointStmt": ownSession,
	"UnlockTablesStmt": ownSession, "SetSessionStatesStmt": ownSession + "; what it prepares is checked as by PREPARE", "SetRoleStmt": ownSession + ", to roles that it has",
	"PrepareStmt": "what it prepares is checked when it is executed", "ExecuteStmt": "checked by what it executes", "DeallocateStmt": ownSession,
	"SetResourceGroupStmt": ownSession + "; tidb_resource_control_strict_mode asks for RESOURCE_GROUP_USER",
	"BinlogStmt":           "TiDB ignores it",
	"KillStmt":             "of the user's own connections; TiDB asks for CONNECTION_ADMIN for others",
	"ImportIntoActionStmt": "SUPER, or the user whose import it is",

	"ShowEngines": noTable, "ShowCharset": noTable, "ShowVariables": noTable, "ShowStatus": noTable, "ShowCollation": noTable, "ShowPlugins": noTable,
	"ShowPrivileges": noTable, "ShowBuiltins": noTable, "ShowErrors": ownSession, "ShowWarnings": ownSession, "ShowProfiles": unsupported, "ShowProfile": unsupported,
	"ShowOpenTables": unsupported, "ShowCreateProcedure": unsupported, "ShowTriggers": unsupported, "ShowProcedureStatus": unsupported, "ShowFunctionStatus": noStatement, "ShowEvents": unsupported,
	"ShowMasterStatus": "shows a timestamp", "ShowBinlogStatus": "shows a timestamp", "ShowSessionStates": ownSession,
	"ShowDatabases": ownRows, "ShowProcessList": ownRows, "ShowBindings": ownRows, "ShowAnalyzeStatus": ownRows, "ShowImportJobs": ownRows, "ShowPlacement": ownRows,
	"AdminShowDDLJobs": ownRows + ", see TestJobListIsFilteredByRights", "ShowPlacementLabels": noTable, "ShowCreatePlacementPolicy": noTable, "ShowCreateResourceGroup": noTable, "ShowBindingCacheStatus": noTable,
	"ShowImports": noStatement, "ShowCreateImport": noStatement,
}

// walkRows are the statements of the walk, by their kinds.
var walkRows = map[string][]statementRights{
	// Schemas.
	"AlterDatabaseStmt":  need("ALTER b1", "ALTER DATABASE b1 CHARACTER SET utf8mb4", "ALTER DATABASE b1 PLACEMENT POLICY = DEFAULT", "ALTER DATABASE b1 SET TIFLASH REPLICA 0"),
	"CreateDatabaseStmt": need("CREATE b2", "CREATE DATABASE b2", "CREATE DATABASE IF NOT EXISTS b2"),
	"DropDatabaseStmt":   need("DROP b1", "DROP DATABASE b1"),
	"FlashBackDatabaseStmt": slices.Concat(
		need("CREATE b1, DROP b1", "FLASHBACK DATABASE b1"), // TiDB's, as for DROP and CREATE
		need("CREATE b1, DROP b1, CREATE b2", "FLASHBACK DATABASE b1 TO b2"),
		need("CREATE a1, DROP a1, CREATE b2", "FLASHBACK DATABASE a1 TO b2")),

	// Tables, views and sequences. A sequence is a table (MariaDB's manual).
	"CreateTableStmt": slices.Concat(
		need("CREATE b1", "CREATE TABLE b1.n (a INT)", "CREATE TABLE IF NOT EXISTS b1.n (a INT)", "CREATE GLOBAL TEMPORARY TABLE b1.n (a INT) ON COMMIT DELETE ROWS",
			"CREATE TABLE b1.n (a INT PRIMARY KEY) PLACEMENT POLICY = pol"),
		need("CREATE TEMPORARY TABLES b1", "CREATE TEMPORARY TABLE b1.n (a INT)"),
		need("CREATE a1, SELECT b1", "CREATE TABLE a1.n LIKE b1.t"),
		need("CREATE a1, REFERENCES b1", "CREATE TABLE a1.n (a INT, KEY (a), FOREIGN KEY (a) REFERENCES b1.t (a))", "CREATE TABLE a1.n (a INT, FOREIGN KEY (a) REFERENCES b1.t (a) ON DELETE CASCADE)"),
		need("CREATE a1", "CREATE TABLE a1.n (a INT REFERENCES b1.t (a))"), // MySQL ignores it, and TiDB does
		refused(unsupported, "CREATE TABLE a1.n SELECT * FROM b1.t")),
	"CreateViewStmt": slices.Concat(
		need("CREATE VIEW b1", "CREATE VIEW b1.n AS SELECT 1"),
		need("CREATE VIEW a1, SELECT b1", "CREATE VIEW a1.n AS SELECT a FROM b1.t", "CREATE VIEW a1.n AS SELECT (SELECT MAX(a) FROM b1.t)", "CREATE SQL SECURITY INVOKER VIEW a1.n AS SELECT a FROM b1.t"),
		need("CREATE VIEW b1, DROP b1", "CREATE OR REPLACE VIEW b1.v AS SELECT 1"),
		need("CREATE VIEW a1, SUPER", "CREATE DEFINER = other@'%' VIEW a1.n AS SELECT 1")),
	"DropTableStmt": slices.Concat(
		need("DROP b1", "DROP TABLE b1.t", "DROP TABLE IF EXISTS b1.t", "DROP VIEW b1.v", "DROP VIEW IF EXISTS b1.v"),
		need("DROP a1, DROP b1", "DROP TABLE a1.t, b1.t")),
	"CreateSequenceStmt": need("CREATE b1", "CREATE SEQUENCE b1.n"),
	"AlterSequenceStmt":  need("ALTER b1", "ALTER SEQUENCE b1.s RESTART WITH 1"),
	"DropSequenceStmt":   slices.Concat(need("DROP b1", "DROP SEQUENCE b1.s"), need("DROP a1, DROP b1", "DROP SEQUENCE a1.s, b1.s")),
	"CreateIndexStmt":    need("INDEX b1", "CREATE INDEX n ON b1.t (b)", "CREATE UNIQUE INDEX n ON b1.t (b)"),
	"DropIndexStmt":      need("INDEX b1", "DROP INDEX ib ON b1.t"),
	"RenameTableStmt": slices.Concat(
		need("ALTER a1, DROP a1, CREATE b1, INSERT b1", "RENAME TABLE a1.t TO b1.n"),
		need("ALTER b1, DROP b1, CREATE a1, INSERT a1", "RENAME TABLE b1.t TO a1.n"),
		need("ALTER a1, DROP a1, CREATE a1, INSERT a1, ALTER b1, DROP b1", "RENAME TABLE a1.t TO a1.n, b1.t TO a1.t")),
	"TruncateTableStmt": need("DROP b1", "TRUNCATE TABLE b1.t"),
	"RecoverTableStmt": slices.Concat(
		need("CREATE b1, DROP b1", "RECOVER TABLE b1.n"),
		need("SUPER", "RECOVER TABLE BY JOB 1")),
	"FlashBackTableStmt":       need("CREATE b1, DROP b1", "FLASHBACK TABLE b1.n", "FLASHBACK TABLE b1.n TO m"),
	"FlashBackToTimestampStmt": need("SUPER", "FLASHBACK CLUSTER TO TIMESTAMP '2020-01-01 00:00:00'", "FLASHBACK TABLE b1.t TO TIMESTAMP '2020-01-01 00:00:00'", "FLASHBACK DATABASE b1 TO TIMESTAMP '2020-01-01 00:00:00'"),
	"LockTablesStmt":           need("LOCK TABLES b1, SELECT b1", "LOCK TABLES b1.t READ", "LOCK TABLES b1.t WRITE"),
	"CleanupTableLockStmt":     need("SUPER", "ADMIN CLEANUP TABLE LOCK b1.t"),
	"RepairTableStmt":          refused("only of a server that was started to repair tables", "ADMIN REPAIR TABLE b1.t CREATE TABLE b1.t (a INT)"),
	"OptimizeTableStmt":        refused(unsupported, "OPTIMIZE TABLE b1.t"),

	// ALTER TABLE. MySQL's manual asks for CREATE and INSERT on the table, too, because it may copy it. TiDB does not, and a user who
	// may ALTER a table can do no more by it.
	"AlterTableOption": need("ALTER b1", "ALTER TABLE b1.t COMMENT = 'x'", "ALTER TABLE b1.t TTL = c + INTERVAL 1 DAY", "ALTER TABLE b1.t PLACEMENT POLICY = pol",
		"ALTER TABLE b1.t AUTO_INCREMENT = 100", "ALTER TABLE b1.t CONVERT TO CHARACTER SET utf8mb4", "ALTER TABLE b1.t SHARD_ROW_ID_BITS = 4"),
	"AlterTableAddColumns": slices.Concat(
		need("ALTER b1", "ALTER TABLE b1.t ADD COLUMN n INT", "ALTER TABLE b1.t ADD COLUMN (n INT, m INT)"),
		need("ALTER a1", "ALTER TABLE a1.t ADD COLUMN n INT REFERENCES b1.t (a)"), // MySQL ignores it, and TiDB does
		need("ALTER a1, REFERENCES b1", "ALTER TABLE a1.t ADD COLUMN (n INT, FOREIGN KEY (n) REFERENCES b1.t (a))", "ALTER TABLE a1.t ADD COLUMN (FOREIGN KEY (b) REFERENCES b1.t (a))"),
	),
	"AlterTableAddConstraint": slices.Concat(
		need("ALTER b1", "ALTER TABLE b1.t ADD INDEX n (b)", "ALTER TABLE b1.t ADD UNIQUE INDEX n (b)", "ALTER TABLE b1.t ADD CONSTRAINT n CHECK (b > 0)"),
		need("ALTER a1, REFERENCES b1", "ALTER TABLE a1.t ADD FOREIGN KEY (b) REFERENCES b1.t (a)")),
	"AlterTableDropColumn":        need("ALTER b1", "ALTER TABLE b1.t DROP COLUMN b"),
	"AlterTableDropPrimaryKey":    need("ALTER b1", "ALTER TABLE b1.t DROP PRIMARY KEY"),
	"AlterTableDropIndex":         need("ALTER b1", "ALTER TABLE b1.t DROP INDEX ib"),
	"AlterTableDropForeignKey":    need("ALTER b1", "ALTER TABLE b1.t DROP FOREIGN KEY fk"),
	"AlterTableModifyColumn":      need("ALTER b1", "ALTER TABLE b1.t MODIFY COLUMN b BIGINT"),
	"AlterTableChangeColumn":      need("ALTER b1", "ALTER TABLE b1.t CHANGE COLUMN b n BIGINT"),
	"AlterTableRenameColumn":      need("ALTER b1", "ALTER TABLE b1.t RENAME COLUMN b TO n"),
	"AlterTableAlterColumn":       need("ALTER b1", "ALTER TABLE b1.t ALTER COLUMN b SET DEFAULT 1"),
	"AlterTableRenameIndex":       need("ALTER b1", "ALTER TABLE b1.t RENAME INDEX ib TO n"),
	"AlterTableIndexInvisible":    need("ALTER b1", "ALTER TABLE b1.t ALTER INDEX ib INVISIBLE"),
	"AlterTableOrderByColumns":    need("ALTER b1", "ALTER TABLE b1.t ORDER BY b"),
	"AlterTableLock":              need("ALTER b1", "ALTER TABLE b1.t LOCK = NONE"),
	"AlterTableAlgorithm":         need("ALTER b1", "ALTER TABLE b1.t ALGORITHM = INSTANT"),
	"AlterTableForce":             need("ALTER b1", "ALTER TABLE b1.t FORCE"),
	"AlterTableEnableKeys":        need("ALTER b1", "ALTER TABLE b1.t ENABLE KEYS"),
	"AlterTableDisableKeys":       need("ALTER b1", "ALTER TABLE b1.t DISABLE KEYS"),
	"AlterTableWithValidation":    need("ALTER b1", "ALTER TABLE b1.t WITH VALIDATION"),
	"AlterTableWithoutValidation": need("ALTER b1", "ALTER TABLE b1.t WITHOUT VALIDATION"),
	"AlterTableWriteable":         need("ALTER b1", "ALTER TABLE b1.t READ ONLY", "ALTER TABLE b1.t READ WRITE"),
	"AlterTableAlterCheck":        need("ALTER b1", "ALTER TABLE b1.t ALTER CHECK n NOT ENFORCED"),
	"AlterTableDropCheck":         need("ALTER b1", "ALTER TABLE b1.t DROP CHECK n"),
	"AlterTableSecondaryLoad":     need("ALTER b1", "ALTER TABLE b1.t SECONDARY_LOAD"),
	"AlterTableSecondaryUnload":   need("ALTER b1", "ALTER TABLE b1.t SECONDARY_UNLOAD"),
	"AlterTableImportTablespace":  need("ALTER b1", "ALTER TABLE b1.t IMPORT TABLESPACE"),
	"AlterTableDiscardTablespace": need("ALTER b1", "ALTER TABLE b1.t DISCARD TABLESPACE"),
	"AlterTableSetTiFlashReplica": need("ALTER b1", "ALTER TABLE b1.t SET TIFLASH REPLICA 1"),
	"AlterTableAttributes":        need("ALTER b1", "ALTER TABLE b1.t ATTRIBUTES = 'merge_option=deny'"),
	"AlterTableCache":             need("ALTER b1", "ALTER TABLE b1.t CACHE"),
	"AlterTableNoCache":           need("ALTER b1", "ALTER TABLE b1.t NOCACHE"),
	"AlterTableStatsOptions":      need("ALTER b1", "ALTER TABLE b1.t STATS_OPTIONS = 'buckets=10'"),
	"AlterTableRemoveTTL":         need("ALTER b1", "ALTER TABLE b1.t REMOVE TTL"),
	"AlterTableAddStatistics":     need("ALTER b1, SELECT b1, INSERT mysql", "ALTER TABLE b1.t ADD STATS_EXTENDED n CORRELATION (a, b)"),
	"AlterTableDropStatistics":    need("ALTER b1, UPDATE mysql", "ALTER TABLE b1.t DROP STATS_EXTENDED n"),
	"AlterTableRenameTable": slices.Concat(
		// TiDB asks for CREATE and INSERT in the old schema, MySQL in the new one.
		need("ALTER a1, DROP a1, CREATE a1, INSERT a1, CREATE b1, INSERT b1", "ALTER TABLE a1.t RENAME TO b1.n", "ALTER TABLE a1.t ADD COLUMN x INT, RENAME AS b1.n"),
		need("ALTER b1, DROP b1, CREATE b1, INSERT b1, CREATE a1, INSERT a1", "ALTER TABLE b1.t RENAME TO a1.n")),

	// ALTER TABLE of partitions.
	"AlterTableAddPartitions":              need("ALTER b1", "ALTER TABLE b1.p ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))"),
	"AlterTableAddLastPartition":           need("ALTER b1", "ALTER TABLE b1.p LAST PARTITION LESS THAN (30)"),
	"AlterTablePartitionAttributes":        need("ALTER b1", "ALTER TABLE b1.p PARTITION p0 ATTRIBUTES = 'merge_option=deny'"),
	"AlterTablePartitionOptions":           need("ALTER b1", "ALTER TABLE b1.p PARTITION p0 PLACEMENT POLICY = pol"),
	"AlterTableCoalescePartitions":         need("ALTER b1", "ALTER TABLE b1.p COALESCE PARTITION 1"),
	"AlterTablePartition":                  need("ALTER b1", "ALTER TABLE b1.t PARTITION BY HASH (a) PARTITIONS 2"),
	"AlterTableRemovePartitioning":         need("ALTER b1", "ALTER TABLE b1.p REMOVE PARTITIONING"),
	"AlterTableRebuildPartition":           need("ALTER b1", "ALTER TABLE b1.p REBUILD PARTITION p0"),
	"AlterTableReorganizePartition":        need("ALTER b1", "ALTER TABLE b1.p REORGANIZE PARTITION p0 INTO (PARTITION n0 VALUES LESS THAN (5), PARTITION n1 VALUES LESS THAN (10))"),
	"AlterTableReorganizeLastPartition":    need("ALTER b1", "ALTER TABLE b1.p SPLIT MAXVALUE PARTITION LESS THAN (30)"),
	"AlterTableReorganizeFirstPartition":   need("ALTER b1", "ALTER TABLE b1.p MERGE FIRST PARTITION LESS THAN (20)"),
	"AlterTableCheckPartitions":            need("ALTER b1", "ALTER TABLE b1.p CHECK PARTITION p0"),
	"AlterTableOptimizePartition":          need("ALTER b1", "ALTER TABLE b1.p OPTIMIZE PARTITION p0"),
	"AlterTableRepairPartition":            need("ALTER b1", "ALTER TABLE b1.p REPAIR PARTITION p0"),
	"AlterTableImportPartitionTablespace":  need("ALTER b1", "ALTER TABLE b1.p IMPORT PARTITION p0 TABLESPACE"),
	"AlterTableDiscardPartitionTablespace": need("ALTER b1", "ALTER TABLE b1.p DISCARD PARTITION p0 TABLESPACE"),
	// What takes rows away needs DROP.
	"AlterTableDropPartition":      need("ALTER b1, DROP b1", "ALTER TABLE b1.p DROP PARTITION p0"),
	"AlterTableDropFirstPartition": need("ALTER b1, DROP b1", "ALTER TABLE b1.p FIRST PARTITION LESS THAN (10)"),
	"AlterTableTruncatePartition":  need("ALTER b1, DROP b1", "ALTER TABLE b1.p TRUNCATE PARTITION p0", "ALTER TABLE b1.p TRUNCATE PARTITION ALL"),
	"AlterTableExchangePartition": need("ALTER a1, DROP a1, CREATE a1, INSERT a1, ALTER b1, DROP b1, CREATE b1, INSERT b1",
		"ALTER TABLE a1.p EXCHANGE PARTITION p0 WITH TABLE b1.e", "ALTER TABLE b1.p EXCHANGE PARTITION p0 WITH TABLE a1.e"),

	// ADMIN is TiDB's, and for administrators; commands on index builds: TestJobsAreCommandedByRightsOnTheTable.
	"AdminCheckTable":                  need("SUPER", "ADMIN CHECK TABLE b1.t"),
	"AdminCheckIndex":                  need("SUPER", "ADMIN CHECK INDEX b1.t ib"),
	"AdminCheckIndexRange":             need("SUPER", "ADMIN CHECK INDEX b1.t ib (1, 2)"),
	"AdminRecoverIndex":                need("SUPER", "ADMIN RECOVER INDEX b1.t ib"),
	"AdminCleanupIndex":                need("SUPER", "ADMIN CLEANUP INDEX b1.t ib"),
	"AdminChecksumTable":               need("SUPER", "ADMIN CHECKSUM TABLE b1.t"),
	"AdminShowNextRowID":               need("SUPER", "ADMIN SHOW b1.t NEXT_ROW_ID"),
	"AdminShowDDL":                     need("SUPER", "ADMIN SHOW DDL"),
	"AdminCancelDDLJobs":               need("SUPER", "ADMIN CANCEL DDL JOBS 1"),
	"AdminPauseDDLJobs":                need("SUPER", "ADMIN PAUSE DDL JOBS 1"),
	"AdminResumeDDLJobs":               need("SUPER", "ADMIN RESUME DDL JOBS 1"),
	"AdminAlterDDLJob":                 need("SUPER", "ADMIN ALTER DDL JOBS 1 THREAD = 2"),
	"AdminShowDDLJobQueries":           need("SUPER", "ADMIN SHOW DDL JOB QUERIES 1"),
	"AdminShowDDLJobQueriesWithRange":  need("SUPER", "ADMIN SHOW DDL JOB QUERIES LIMIT 5"),
	"AdminShowSlow":                    need("SUPER", "ADMIN SHOW SLOW RECENT 5"),
	"AdminReloadExprPushdownBlacklist": need("SUPER", "ADMIN RELOAD EXPR_PUSHDOWN_BLACKLIST"),
	"AdminReloadOptRuleBlacklist":      need("SUPER", "ADMIN RELOAD OPT_RULE_BLACKLIST"),
	"AdminPluginDisable":               need("SUPER", "ADMIN PLUGINS DISABLE audit"),
	"AdminPluginEnable":                need("SUPER", "ADMIN PLUGINS ENABLE audit"),
	"AdminFlushBindings":               need("SUPER", "ADMIN FLUSH BINDINGS"),
	"AdminCaptureBindings":             need("SUPER", "ADMIN CAPTURE BINDINGS"),
	"AdminEvolveBindings":              need("SUPER", "ADMIN EVOLVE BINDINGS"),
	"AdminReloadBindings":              need("SUPER", "ADMIN RELOAD BINDINGS"),
	"AdminReloadStatistics":            need("SUPER", "ADMIN RELOAD STATS_EXTENDED"),
	"AdminFlushPlanCache":              need("SUPER", "ADMIN FLUSH INSTANCE PLAN_CACHE"),
	"AdminSetBDRRole":                  need("SUPER", "ADMIN SET BDR ROLE PRIMARY"),
	"AdminUnsetBDRRole":                need("SUPER", "ADMIN UNSET BDR ROLE"),
	"AdminShowBDRRole":                 need("SUPER", "ADMIN SHOW BDR ROLE"),

	// Statistics: ANALYZE needs SELECT and INSERT.
	"AnalyzeTableStmt": slices.Concat(
		need("SELECT b1, INSERT b1", "ANALYZE TABLE b1.t", "ANALYZE TABLE b1.t INDEX ib", "ANALYZE TABLE b1.p PARTITION p0"),
		need("SELECT a1, INSERT a1, SELECT b1, INSERT b1", "ANALYZE TABLE a1.t, b1.t")),
	"DropStatsStmt": slices.Concat(
		need("SELECT b1, INSERT b1", "DROP STATS b1.t", "DROP STATS b1.p PARTITION p0", "DROP STATS b1.t GLOBAL"),
		need("SELECT a1, INSERT a1, SELECT b1, INSERT b1", "DROP STATS a1.t, b1.t")),
	"LoadStatsStmt":        need("SELECT, INSERT", "LOAD STATS 'stats.json'"), // of the table that the client's file names
	"LockStatsStmt":        need("SELECT b1, INSERT b1", "LOCK STATS b1.t", "LOCK STATS b1.p PARTITION p0"),
	"UnlockStatsStmt":      need("SELECT b1, INSERT b1", "UNLOCK STATS b1.t", "UNLOCK STATS b1.p PARTITION p0"),
	"CreateStatisticsStmt": refused(unsupported, "CREATE STATISTICS n (CORRELATION) ON b1.t (a, b)"),
	"DropStatisticsStmt":   refused(unsupported, "DROP STATISTICS n"),

	// Plans.
	"CreateBindingStmt": need("SUPER", "CREATE GLOBAL BINDING FOR SELECT * FROM a1.t USING SELECT /*+ USE_INDEX(t, ib) */ * FROM a1.t",
		"CREATE SESSION BINDING FOR SELECT * FROM b1.t USING SELECT /*+ USE_INDEX(t, ib) */ * FROM b1.t",
		"CREATE SESSION BINDING FROM HISTORY USING PLAN DIGEST '4e3159169cc63c14b139a4e7d72eae1759875c9a9581f94bb2079aae961189cb'"),
	"DropBindingStmt": need("SUPER", "DROP GLOBAL BINDING FOR SELECT * FROM a1.t", "DROP GLOBAL BINDING FOR SQL DIGEST '4e3159169cc63c14b139a4e7d72eae1759875c9a9581f94bb2079aae961189cb'"),
	"SetBindingStmt":  need("SUPER", "SET BINDING DISABLED FOR SELECT * FROM a1.t"),
	"PlanReplayerStmt": slices.Concat(
		need("SELECT b1", "PLAN REPLAYER DUMP EXPLAIN SELECT * FROM b1.t", "PLAN REPLAYER DUMP EXPLAIN ANALYZE SELECT * FROM b1.t"),
		need("SELECT, INSERT", "PLAN REPLAYER LOAD 'plan.zip'"),
		need("SUPER", "PLAN REPLAYER CAPTURE '4e3159169cc63c14b139a4e7d72eae1759875c9a9581f94bb2079aae961189cb' '*'",
			"PLAN REPLAYER CAPTURE REMOVE '4e3159169cc63c14b139a4e7d72eae1759875c9a9581f94bb2079aae961189cb' '*'"),
		refused("its statements would pass the guards", "PLAN REPLAYER DUMP EXPLAIN 'file.sql'")),
	"TraceStmt": slices.Concat(
		need("DELETE b1", "TRACE PLAN DELETE FROM b1.t"),
		[]statementRights{{sql: "TRACE FORMAT = 'log' DELETE FROM b1.t", needs: "DELETE b1", silent: "the error is in the trace"}, {sql: "TRACE DELETE FROM b1.t", needs: "DELETE b1", silent: "TiDB traces what fails"}}),
	"ExplainStmt": need("DELETE b1", "EXPLAIN DELETE FROM b1.t", "EXPLAIN ANALYZE DELETE FROM b1.t"),
	"RecommendIndexStmt": slices.Concat(
		// TiDB reads and writes its tables with the user's rights.
		need("SELECT mysql, SELECT b1", "RECOMMEND INDEX RUN FOR 'SELECT * FROM b1.t WHERE b = 1'", "RECOMMEND INDEX RUN FOR 'SELECT 1; SELECT (SELECT MAX(a) FROM b1.t)'"),
		need("SELECT mysql", "RECOMMEND INDEX RUN"), // of the statements that the user may see
		need("INSERT mysql, UPDATE mysql", "RECOMMEND INDEX SET max_num_index = 3")),

	// Regions and stores.
	"SplitRegionStmt":           need("ALTER b1", "SPLIT TABLE b1.t BETWEEN (0) AND (1000) REGIONS 2", "SPLIT TABLE b1.t INDEX ib BETWEEN (0) AND (1000) REGIONS 2", "SPLIT PARTITION TABLE b1.p BETWEEN (0) AND (1000) REGIONS 2"),
	"CompactTableStmt":          need("ALTER b1", "ALTER TABLE b1.t COMPACT TIFLASH REPLICA"),
	"DistributeTableStmt":       need("ALTER b1", "DISTRIBUTE TABLE b1.t RULE = 'leader-scatter' ENGINE = 'tikv'"),
	"CancelDistributionJobStmt": need("SUPER", "CANCEL DISTRIBUTION JOB 1"),
	"AlterRangeStmt":            need("PLACEMENT_ADMIN", "ALTER RANGE global PLACEMENT POLICY = pol", "ALTER RANGE meta PLACEMENT POLICY = DEFAULT"),
	"CreatePlacementPolicyStmt": need("PLACEMENT_ADMIN", "CREATE PLACEMENT POLICY n FOLLOWERS = 1", "CREATE OR REPLACE PLACEMENT POLICY pol FOLLOWERS = 2"),
	"AlterPlacementPolicyStmt":  need("PLACEMENT_ADMIN", "ALTER PLACEMENT POLICY pol FOLLOWERS = 2"),
	"DropPlacementPolicyStmt":   need("PLACEMENT_ADMIN", "DROP PLACEMENT POLICY pol"),
	"CreateResourceGroupStmt":   need("RESOURCE_GROUP_ADMIN", "CREATE RESOURCE GROUP n RU_PER_SEC = 1000"),
	"AlterResourceGroupStmt":    need("RESOURCE_GROUP_ADMIN", "ALTER RESOURCE GROUP rg RU_PER_SEC = 2000"),
	"DropResourceGroupStmt":     need("RESOURCE_GROUP_ADMIN", "DROP RESOURCE GROUP rg"),
	"CalibrateResourceStmt":     need("RESOURCE_GROUP_ADMIN", "CALIBRATE RESOURCE"),
	"AddQueryWatchStmt":         need("RESOURCE_GROUP_ADMIN", "QUERY WATCH ADD ACTION KILL SQL TEXT EXACT TO 'SELECT * FROM b1.t'"),
	"DropQueryWatchStmt":        need("RESOURCE_GROUP_ADMIN", "QUERY WATCH REMOVE 1"),
	"SetConfigStmt":             need("CONFIG", "SET CONFIG tikv `log.level` = 'info'"),

	// Rows.
	"SelectStmt": slices.Concat(
		need("SELECT b1", "SELECT * FROM b1.t", "SELECT LASTVAL(b1.s)"),
		[]statementRights{{sql: "SELECT * FROM b1.t FOR UPDATE", needs: "SELECT b1, UPDATE b1", unasked: "UPDATE b1", why: "locks end with the transaction, and TiDB's users with SELECT only take them"}},
		need("INSERT b1", "SELECT NEXTVAL(b1.s)", "SELECT SETVAL(b1.s, 10)"),
		refused("no folder for files is configured, and TestSecureFilePriv has the rest", "SELECT * FROM b1.t INTO OUTFILE 'x'")),
	"SetOprStmt": need("SELECT a1, SELECT b1", "SELECT a FROM a1.t UNION SELECT a FROM b1.t"),
	"InsertStmt": slices.Concat(
		need("INSERT b1", "INSERT INTO b1.t (a) VALUES (1)"),
		need("INSERT a1, SELECT b1", "INSERT INTO a1.t SELECT * FROM b1.t"),
		need("INSERT b1, UPDATE b1", "INSERT INTO b1.t (a) VALUES (1) ON DUPLICATE KEY UPDATE b = 1"),
		need("INSERT b1, DELETE b1", "REPLACE INTO b1.t (a) VALUES (1)"),
		need("INSERT a1, INSERT b1", "INSERT INTO a1.d (b) VALUES (1)")), // the default is the next value of b1.s
	"UpdateStmt": slices.Concat(
		need("SELECT b1, UPDATE b1", "UPDATE b1.t SET b = 1", "UPDATE b1.t SET b = 1 WHERE a = 1"), // TiDB asks for SELECT always
		need("SELECT a1, UPDATE a1, SELECT b1", "UPDATE a1.e JOIN b1.t USING (a) SET a1.e.b = b1.t.b", "UPDATE a1.e, b1.t SET a1.e.b = 1"),
		// Where two tables share a name TiDB asks for UPDATE on the last of them, which MySQL does not.
		need("SELECT b1, UPDATE b1, SELECT a1, UPDATE a1", "UPDATE b1.t JOIN a1.t USING (a) SET b1.t.b = 1", "UPDATE a1.t JOIN b1.t USING (a) SET a1.t.b = b1.t.b",
			"UPDATE b1.t, a1.e AS t SET b1.t.b = 1", "UPDATE b1.t, a1.e AS t SET c = NULL", "UPDATE (b1.t JOIN a1.e AS t ON TRUE) SET b1.t.b = 1")),
	"DeleteStmt": slices.Concat(
		need("DELETE b1", "DELETE FROM b1.t"),
		need("SELECT b1, DELETE b1", "DELETE FROM b1.t WHERE a = 1"),
		need("SELECT a1, SELECT b1, DELETE b1", "DELETE b1.t FROM a1.t JOIN b1.t USING (a)", "DELETE b1.t FROM b1.t JOIN a1.t USING (a)"),
		need("SELECT a1, DELETE a1, SELECT b1", "DELETE a1.t FROM a1.t JOIN b1.t USING (a)", "DELETE FROM a1.t USING a1.t, (SELECT a FROM b1.t) x"),
		need("SELECT a1, SELECT b1, DELETE b1", "DELETE b1.t FROM b1.t, a1.e AS t"),
		need("DELETE b1", "DELETE b1.t FROM b1.t")),
	"NonTransactionalDMLStmt": slices.Concat(
		need("SELECT b1, DELETE b1", "BATCH ON a LIMIT 1 DELETE FROM b1.t"),
		need("SELECT b1", "BATCH ON a LIMIT 1 DRY RUN DELETE FROM b1.t")),
	"LoadDataStmt": slices.Concat(
		need("INSERT b1", "LOAD DATA LOCAL INFILE 'x' INTO TABLE b1.t"),
		need("INSERT b1, DELETE b1", "LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE b1.t")),
	"ImportIntoStmt": slices.Concat(
		need("SELECT b1, UPDATE b1, INSERT b1, DELETE b1, ALTER b1, SELECT a1", "IMPORT INTO b1.e FROM SELECT * FROM a1.e"),
		refused("no folder for files is configured, and TestSecureFilePriv has the rest", "IMPORT INTO b1.e FROM '/x.csv'")),
	"BRIEStmt":          refused("not on the embedded store", "BACKUP DATABASE b1 TO 'local:///x'", "RESTORE DATABASE b1 FROM 'local:///x'"),
	"DoStmt":            need("INSERT b1", "DO NEXTVAL(b1.s)"),
	"CallStmt":          refused(unsupported, "CALL b1.n()"),
	"ProcedureInfo":     refused(unsupported, "CREATE PROCEDURE b1.n() BEGIN END"),
	"DropProcedureStmt": refused(unsupported, "DROP PROCEDURE b1.n"),

	// The server and its users.
	"UseStmt":        need("SELECT b1", "USE b1"), // any right in it
	"FlushStmt":      need("RELOAD", "FLUSH PRIVILEGES", "FLUSH STATUS", "FLUSH TABLES b1.t"),
	"SetStmt":        need("SYSTEM_VARIABLES_ADMIN", "SET GLOBAL max_connections = 1000"),
	"SetPwdStmt":     need("SUPER", "SET PASSWORD FOR other = 'x'"), // MySQL: UPDATE on mysql.user, or CREATE USER
	"CreateUserStmt": need("CREATE USER", "CREATE USER n", "CREATE ROLE n"),
	"AlterUserStmt": slices.Concat(
		need("CREATE USER", "ALTER USER other IDENTIFIED BY 'x'", "ALTER USER CURRENT_USER() REQUIRE NONE", "ALTER USER CURRENT_USER() ACCOUNT UNLOCK", "ALTER USER CURRENT_USER() RESOURCE GROUP rg"),
		need("", "ALTER USER CURRENT_USER() IDENTIFIED BY 'x'")),
	"DropUserStmt":   need("CREATE USER", "DROP USER other", "DROP ROLE r"),
	"RenameUserStmt": need("CREATE USER", "RENAME USER other TO n"),
	"GrantStmt": slices.Concat(
		need("GRANT OPTION b1, SELECT b1", "GRANT SELECT ON b1.* TO other"),
		need("GRANT OPTION b1, SELECT b1, CREATE USER", "GRANT SELECT ON b1.* TO other REQUIRE X509")),
	"RevokeStmt":         need("GRANT OPTION b1, SELECT b1", "REVOKE SELECT ON b1.* FROM other"),
	"GrantRoleStmt":      need("ROLE_ADMIN", "GRANT r TO other"),
	"RevokeRoleStmt":     need("ROLE_ADMIN", "REVOKE r FROM other"),
	"SetDefaultRoleStmt": need("CREATE USER", "SET DEFAULT ROLE NONE TO other"),
	"GrantProxyStmt":     refused(unsupported, "GRANT PROXY ON other TO r"),
	"AlterInstanceStmt":  need("SUPER", "ALTER INSTANCE RELOAD TLS"),
	"ShutdownStmt":       need("SHUTDOWN", "SHUTDOWN"),
	"RestartStmt":        refused(unsupported, "RESTART"),
	"HelpStmt":           refused(unsupported, "HELP 'x'"),
	"ExplainForStmt":     refused("it has no such connection", "EXPLAIN FOR CONNECTION 99999999"),

	// SHOW of a table needs any right on it, if nothing else.
	"ShowTables":                need("SELECT b1", "SHOW TABLES FROM b1"),
	"ShowTableStatus":           need("SELECT b1", "SHOW TABLE STATUS FROM b1"),
	"ShowColumns":               need("SELECT b1", "SHOW COLUMNS FROM b1.t", "DESCRIBE b1.t"),
	"ShowIndex":                 need("SELECT b1", "SHOW INDEX FROM b1.t"),
	"ShowCreateTable":           need("SELECT b1", "SHOW CREATE TABLE b1.t"),
	"ShowCreateView":            need("SELECT b1, SHOW VIEW b1", "SHOW CREATE VIEW b1.v"),
	"ShowCreateSequence":        need("SELECT b1", "SHOW CREATE SEQUENCE b1.s"),
	"ShowCreateDatabase":        need("SELECT b1", "SHOW CREATE DATABASE b1"),
	"ShowPlacementForDatabase":  need("SELECT b1", "SHOW PLACEMENT FOR DATABASE b1"),
	"ShowPlacementForTable":     need("SELECT b1", "SHOW PLACEMENT FOR TABLE b1.t"),
	"ShowPlacementForPartition": need("SELECT b1", "SHOW PLACEMENT FOR TABLE b1.p PARTITION p0"),
	"ShowRegions":               need("SELECT b1", "SHOW TABLE b1.t REGIONS", "SHOW TABLE b1.t INDEX ib REGIONS"), // keys are values
	"ShowTableNextRowId":        need("SELECT b1", "SHOW TABLE b1.t NEXT_ROW_ID"),
	"ShowDistributions":         need("SELECT b1", "SHOW TABLE b1.t DISTRIBUTIONS"),
	"ShowDistributionJobs":      need("SUPER", "SHOW DISTRIBUTION JOBS", "SHOW DISTRIBUTION JOB 1"), // of all tables
	"ShowStatsExtended":         need("SELECT mysql", "SHOW STATS_EXTENDED"),
	"ShowStatsMeta":             need("SELECT mysql", "SHOW STATS_META"),
	"ShowStatsHistograms":       need("SELECT mysql", "SHOW STATS_HISTOGRAMS"),
	"ShowStatsTopN":             need("SELECT mysql", "SHOW STATS_TOPN"),
	"ShowStatsBuckets":          need("SELECT mysql", "SHOW STATS_BUCKETS"),
	"ShowStatsHealthy":          need("SELECT mysql", "SHOW STATS_HEALTHY"),
	"ShowStatsLocked":           need("SELECT mysql", "SHOW STATS_LOCKED"),
	"ShowHistogramsInFlight":    need("SELECT mysql", "SHOW HISTOGRAMS_IN_FLIGHT"),
	"ShowColumnStatsUsage":      need("SELECT mysql", "SHOW COLUMN_STATS_USAGE"),
	"ShowCreateUser":            need("SELECT mysql", "SHOW CREATE USER other"),
	"ShowGrants":                need("SELECT mysql", "SHOW GRANTS FOR other"),
	"ShowConfig":                need("CONFIG", "SHOW CONFIG"),
	"ShowBackups":               need("BACKUP_ADMIN", "SHOW BACKUPS"),
	"ShowRestores":              need("RESTORE_ADMIN", "SHOW RESTORES"),
	"ShowReplicaStatus":         refused(unsupported, "SHOW REPLICA STATUS"),
}
