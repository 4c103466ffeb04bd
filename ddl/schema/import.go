package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/ddl/label"
	"github.com/pingcap/tidb/pkg/ddl/notifier"
	"github.com/pingcap/tidb/pkg/ddl/placement"
	ddlutil "github.com/pingcap/tidb/pkg/ddl/util"
	"github.com/pingcap/tidb/pkg/domain"
	"github.com/pingcap/tidb/pkg/domain/infosync"
	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
)

// This file is what an IMPORT INTO writes to TiDB's metadata. Its rows go under IDs that no reader knows, and one schema version
// replaces the table by one with these, as TRUNCATE does (onTruncateTable in pkg/ddl/table.go).

// ActionImport is the type of an import's row in TiDB's queue: one that no version of TiDB runs.
const ActionImport model.ActionType = 252

func init() { model.ActionMap[ActionImport] = "import into" }

// Import is an IMPORT INTO as TiDB's metadata knows it.
type Import struct {
	// RowID is the ID of the import's row in TiDB's queue.
	RowID int64 `json:"row_id"`
	// DB and Table are names as the queue has them (QueueName); the IDs are those before the swap.
	DB      string `json:"db"`
	Table   string `json:"table"`
	DBID    int64  `json:"db_id"`
	TableID int64  `json:"table_id"`
	// Query is the statement without secrets.
	Query string `json:"query"`
	// CreateTS is when the import was queued, TableTS the definition of the table that it was planned with, and since
	// HoldTable the one that HoldTable has written.
	CreateTS uint64 `json:"create_ts"`
	TableTS  uint64 `json:"table_ts"`
	// SchemaVersion is the last version that was published for the import; 0 before.
	SchemaVersion int64 `json:"schema_version,omitempty"`
	// NewTableID and NewPartitionIDs, in the order of the partitions, are what the rows go under, and PartitionIDs those before the swap;
	// 0 and none before HoldTable.
	NewTableID      int64   `json:"new_table_id,omitempty"`
	NewPartitionIDs []int64 `json:"new_partition_ids,omitempty"`
	PartitionIDs    []int64 `json:"partition_ids,omitempty"`
}

// Queued is the import as the functions over TiDB's queue and over versions take it.
func (i *Import) Queued() *job.Record {
	return &job.Record{
		ID: i.RowID, RowID: i.RowID, DBID: i.DBID, TableID: i.TableID, DB: i.DB, Table: i.Table, SchemaVersion: i.SchemaVersion,
		Step: job.StepQueued,
	}
}

// tidbJob is the import as TiDB's queue shows it.
func (i *Import) tidbJob() *model.Job {
	j := &model.Job{
		ID: i.RowID, Type: ActionImport, SchemaID: i.DBID, TableID: i.TableID, SchemaName: i.DB, TableName: i.Table,
		State: model.JobStatePaused, AdminOperator: model.AdminCommandByNotKnown, SchemaState: model.StatePublic,
		StartTS: i.CreateTS, RealStartTS: i.CreateTS, Query: i.Query, BinlogInfo: new(model.HistoryInfo),
		Version: model.GetJobVerInUse(), ReorgMeta: &model.DDLReorgMeta{Version: model.CurrentReorgMetaVersion},
	}
	j.FillArgs(&model.EmptyArgs{})
	return j
}

// InsertImport puts an import into TiDB's queue, which keeps other DDL off the table.
func InsertImport(t *session.Txn, i *Import) error {
	meta, err := i.tidbJob().Encode(true)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	return t.Exec(fmt.Sprintf(`INSERT INTO mysql.tidb_ddl_job (job_id, reorg, schema_ids, table_ids, job_meta, type, processing)
		VALUES (%%?, 1, %%?, %%?, %s, %%?, 0)`, ddlutil.WrapKey2String(meta)),
		i.RowID, strconv.FormatInt(i.DBID, 10), strconv.FormatInt(i.TableID, 10), int(ActionImport))
}

// TouchImport fails with ErrRowTaken if a user, or TiDB, has taken the import's row, and makes the transaction fail if that is done meanwhile.
func TouchImport(t *session.Txn, i *Import) error {
	intact, err := RowIntact(t, i.Queued())
	if err != nil {
		return err
	}
	if !intact {
		return ErrRowTaken
	}
	meta, err := i.tidbJob().Encode(true)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	return t.Exec(fmt.Sprintf(`UPDATE mysql.tidb_ddl_job SET job_meta = %s WHERE job_id = %%?`, ddlutil.WrapKey2String(meta)), i.RowID)
}

// TableOfRow returns the names of the table of a row in TiDB's queue; empty if there is none.
func TableOfRow(t *session.Txn, id int64) (db, table string, err error) {
	rows, err := t.Query(`SELECT job_meta FROM mysql.tidb_ddl_job WHERE job_id = %?`, id)
	if err != nil || len(rows) == 0 {
		return "", "", err
	}
	var j model.Job
	if err := j.Decode(rows[0].GetBytes(0)); err != nil {
		return "", "", fmt.Errorf("decode job %d in the queue: %w", id, err)
	}
	return j.SchemaName, j.TableName, nil
}

// readPlanned returns the table of an import. It fails if the table is not the one that the import was planned with.
func readPlanned(t *session.Txn, i *Import) (*model.TableInfo, error) {
	table, err := ReadTable(t, i.Queued())
	if err != nil {
		return nil, err
	}
	if table == nil || QueueName(table.Name.L) != i.Table {
		return nil, infoschema.ErrTableNotExists.GenWithStackByArgs(i.DB, i.Table)
	}
	if table.UpdateTS != i.TableTS {
		return nil, domain.ErrInfoSchemaChanged.GenWithStackByArgs()
	}
	return table, nil
}

// HoldTable publishes a schema version without a change, and gives the import the IDs that its rows go under. When servers have that
// version, every transaction that used the table under an older one has ended. TiDB's own ID of its DDL on this server is ownerID.
func HoldTable(t *session.Txn, i *Import, ownerID string) error {
	table, err := readPlanned(t, i)
	if err != nil {
		return err
	}
	i.PartitionIDs = PartitionIDs(table)
	ids, err := t.Meta.GenGlobalIDs(1 + len(i.PartitionIDs))
	if err != nil {
		return fmt.Errorf("generate IDs: %w", err)
	}
	i.NewTableID, i.NewPartitionIDs = ids[0], ids[1:]
	version, err := takeVersion(t)
	if err != nil {
		return err
	}
	i.SchemaVersion, i.TableTS = version, t.TS
	table.UpdateTS = t.TS
	if err := t.Meta.UpdateTable(i.DBID, table); err != nil {
		return fmt.Errorf("write table %s: %w", table.Name.O, err)
	}
	diff := &model.SchemaDiff{Version: version, Type: model.ActionAddIndex, SchemaID: i.DBID, TableID: i.TableID}
	return announce(t, i.RowID, diff, ownerID, i.TableID)
}

// WithNewIDs is the definition of the import's table with the IDs that its rows go under.
func (i *Import) WithNewIDs(table *model.TableInfo) (*model.TableInfo, error) {
	table = table.Clone()
	table.ID = i.NewTableID
	partition := table.GetPartitionInfo()
	if partition == nil {
		return table, nil
	}
	if len(partition.Definitions) != len(i.NewPartitionIDs) {
		return nil, fmt.Errorf("table %s has %d partitions, the import %d", table.Name.O, len(partition.Definitions), len(i.NewPartitionIDs))
	}
	partition.Definitions = slices.Clone(partition.Definitions)
	for at := range partition.Definitions {
		partition.Definitions[at].ID = i.NewPartitionIDs[at]
	}
	return table, nil
}

// Swap replaces the table by the one with the import's IDs, under the next schema version. autoIDs are the largest values that the
// imported rows have of each allocator: those of the table continue behind them.
func Swap(t *session.Txn, i *Import, autoIDs model.AutoIDGroup, ownerID string) error {
	table, err := readPlanned(t, i)
	if err != nil {
		return err
	}
	swapped, err := i.WithNewIDs(table)
	if err != nil {
		return err
	}
	swapped.UpdateTS = t.TS
	version, err := takeVersion(t)
	if err != nil {
		return err
	}
	i.SchemaVersion = version
	accessors := t.Meta.GetAutoIDAccessors(i.DBID, i.TableID)
	before, err := accessors.Get()
	if err != nil {
		return fmt.Errorf("read the automatic values of %s: %w", table.Name.O, err)
	}
	if err := t.Meta.DropTableOrView(i.DBID, i.TableID); err != nil {
		return fmt.Errorf("replace table %s: %w", table.Name.O, err)
	}
	if err := accessors.Del(); err != nil {
		return fmt.Errorf("replace table %s: %w", table.Name.O, err)
	}
	if err := t.Meta.CreateTableAndSetAutoID(i.DBID, swapped, continued(swapped, before, autoIDs)); err != nil {
		return fmt.Errorf("write table %s: %w", table.Name.O, err)
	}
	diff := &model.SchemaDiff{Version: version, Type: model.ActionTruncateTable, SchemaID: i.DBID, TableID: i.NewTableID, OldTableID: i.TableID}
	if diff.AffectedOpts, err = place(t, table, swapped); err != nil {
		return err
	}
	if err := relabel(t, i.DB, swapped); err != nil { // at once, whether this is committed or not: see UndoImport
		return err
	}
	store := notifier.OpenTableStore("mysql", tidbddl.NotifierTableName)
	err = notifier.PubSchemeChangeToStore(t.Ctx, t.Session, i.RowID, noSubJob, notifier.NewTruncateTableEvent(swapped, table), store)
	if err != nil {
		return fmt.Errorf("notify statistics of the import: %w", err)
	}
	return announce(t, i.RowID, diff, ownerID, i.TableID)
}

// place hands the placement of a table, if it has any, on to that which replaces it, and returns what the diff says of that.
func place(t *session.Txn, table, swapped *model.TableInfo) (affected []*model.AffectedOption, err error) {
	placed := table.PlacementPolicyRef != nil
	if p := table.GetPartitionInfo(); p != nil {
		for at := range p.Definitions {
			if p.Definitions[at].PlacementPolicyRef == nil {
				continue
			}
			placed = true
			affected = append(affected, &model.AffectedOption{OldTableID: p.Definitions[at].ID, TableID: swapped.GetPartitionInfo().Definitions[at].ID})
		}
	}
	if !placed {
		return nil, nil
	}
	bundles, err := placement.NewFullTableBundles(t.Meta, swapped)
	if err == nil {
		err = infosync.PutRuleBundlesWithDefaultRetry(context.WithoutCancel(t.Ctx), bundles)
	}
	if err != nil {
		return nil, fmt.Errorf("write the placement of %s: %w", table.Name.O, err)
	}
	return affected, nil
}

// relabel has the attributes of a table and its partitions (ALTER TABLE ... ATTRIBUTES), whose rules name ranges of keys, name those of its
// and their IDs (updateLabelRules in pkg/ddl/table.go).
func relabel(t *session.Txn, db string, table *model.TableInfo) error {
	ofTable := fmt.Sprintf(label.TableIDFormat, label.IDPrefix, db, table.Name.L)
	wanted, ids := []string{ofTable}, []int64{table.ID}
	ofPartitions := make(map[string]*model.PartitionDefinition)
	if p := table.GetPartitionInfo(); p != nil {
		for at := range p.Definitions {
			d := &p.Definitions[at]
			rule := fmt.Sprintf(label.PartitionIDFormat, label.IDPrefix, db, table.Name.L, d.Name.L)
			wanted, ids, ofPartitions[rule] = append(wanted, rule), append(ids, d.ID), d
		}
	}
	ctx := context.WithoutCancel(t.Ctx)
	rules, err := infosync.GetLabelRules(ctx, wanted)
	if err != nil {
		return fmt.Errorf("read the attributes of %s: %w", table.Name.O, err)
	}
	var changed []*label.Rule
	for id, rule := range rules {
		if d, ok := ofPartitions[id]; ok {
			changed = append(changed, rule.Clone().Reset(db, table.Name.L, d.Name.L, d.ID))
		} else if id == ofTable {
			changed = append(changed, rule.Clone().Reset(db, table.Name.L, "", ids...))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := infosync.UpdateLabelRules(ctx, label.NewRulePatch(changed, nil)); err != nil {
		return fmt.Errorf("write the attributes of %s: %w", table.Name.O, err)
	}
	return nil
}

// continued are the counters of a table behind what they were and behind the values of imported rows. Where TiDB has one counter for
// row IDs and AUTO_INCREMENT, they share it (GetGlobalAutoIDAlloc in pkg/lightning/common/common.go).
func continued(table *model.TableInfo, before, imported model.AutoIDGroup) model.AutoIDGroup {
	after := model.AutoIDGroup{RowID: max(before.RowID, imported.RowID), RandomID: larger(table.IsAutoRandomBitColUnsigned(), before.RandomID, imported.RandomID)}
	unsigned := table.GetAutoIncrementColInfo() != nil && table.IsAutoIncColUnsigned()
	if table.SepAutoInc() {
		after.IncrementID = larger(unsigned, before.IncrementID, imported.IncrementID)
		return after
	}
	after.RowID = larger(unsigned, after.RowID, imported.IncrementID)
	return after
}

func larger(unsigned bool, a, b int64) int64 {
	if unsigned {
		return int64(max(uint64(a), uint64(b)))
	}
	return max(a, b)
}

// EndImport takes an import off TiDB's queue, and gives the ranges of a table's and its partitions' IDs to garbage collection: those before
// the swap, or those of rows that are not to be. tableID 0 gives none.
func EndImport(t *session.Txn, i *Import, tableID int64, partitionIDs []int64) error {
	if err := deleteRow(t, i.Queued()); err != nil {
		return err
	}
	if tableID == 0 {
		return nil
	}
	j := i.tidbJob()
	j.Type, j.TableID, j.State = model.ActionTruncateTable, tableID, model.JobStateDone
	j.FillFinishedArgs(&model.TruncateTableArgs{OldPartitionIDs: partitionIDs})
	return deleteRanges(t, j)
}

// UndoImport is EndImport of an import that was not swapped in. The rules of the table's attributes are in PD, where a swap that was not
// committed has changed them: they name the table's own keys again.
func UndoImport(t *session.Txn, i *Import) error {
	if i.NewTableID != 0 {
		table, err := ReadTable(t, i.Queued())
		if err != nil {
			return err
		}
		if table != nil && QueueName(table.Name.L) == i.Table {
			if err := relabel(t, i.DB, table); err != nil {
				return err
			}
		}
	}
	return EndImport(t, i, i.NewTableID, i.NewPartitionIDs)
}

// AwaitImport waits until every server, and every transaction that uses the table, has the import's version. Before the swap it fails
// with ErrUnlocked if the metadata lock is off, without which transactions are not waited for.
func (v *Versions) AwaitImport(ctx context.Context, i *Import, swapped bool) error {
	r := i.Queued()
	if swapped {
		r.Step = job.StepPublic
	}
	err := v.Await(ctx, r)
	if errors.Is(err, errUnlocked) {
		return ErrUnlocked
	}
	return err
}

// ErrUnlocked refuses an import while the metadata lock is off.
var ErrUnlocked = errors.New("IMPORT INTO needs tidb_enable_metadata_lock = ON, by which it waits for transactions that use the table")
