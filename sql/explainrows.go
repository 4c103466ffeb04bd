package sql

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/types"

	"fastddl/config"
	"fastddl/ddl/estimate"
	"fastddl/ddl/job"
)

// Items of EXPLAIN, the values of its first column. Programs read them: they do not change.
const (
	itemRows         = "rows"
	itemIndexBytes   = "index_bytes"
	itemExisting     = "existing_index"
	itemDuplicates   = "duplicates"
	itemRowErrors    = "row_errors"
	itemReadBytes    = "read_bytes"
	itemMemory       = "memory_bytes"
	itemTemp         = "temp_bytes"
	itemStore        = "store_bytes"
	itemSeconds      = "seconds"
	itemStage        = "stage_seconds"
	itemJobsAhead    = "jobs_ahead"
	itemTransactions = "open_transactions"
	itemBuiltBy      = "built_by"
	itemVerdict      = "verdict"
)

// explainRow is a row of EXPLAIN. Numbers are plain, so that programs can read them; info is for people.
type explainRow struct{ item, name, estimate, actual, info string }

func (r *explainRow) datums(analyze bool) []types.Datum {
	if analyze {
		return types.MakeDatums(r.item, r.name, r.estimate, r.actual, r.info)
	}
	return types.MakeDatums(r.item, r.name, r.estimate, r.info)
}

// leastEntries is from how many entries on the bytes of one are shown.
const leastEntries = 1000

// unknownValue stands for a number that is not known.
const unknownValue = "unknown"

// rows returns the rows of an EXPLAIN.
func (x *explained) rows() []explainRow {
	var rows []explainRow
	add := func(r explainRow) { rows = append(rows, r) }
	if e := x.estimation; e != nil {
		add(x.rowCount())
		for i := range e.Indexes {
			rows = append(rows, x.indexRows(&e.Indexes[i])...)
		}
		if r, ok := x.rowErrors(); ok {
			add(r)
		}
		rows = append(rows, x.resourceRows()...)
	}
	rows = append(rows, x.timeRows()...)
	if e := x.estimation; e != nil {
		add(x.jobsAhead())
		add(x.transactions())
	}
	add(x.builtBy())
	add(x.verdict())
	return rows
}

func (x *explained) rowCount() explainRow {
	rows := x.estimation.Rows
	r := explainRow{item: itemRows, estimate: number(rows.Number)}
	switch {
	case rows.Exact:
		r.info = "counted"
	default:
		r.info = fmt.Sprintf("+-%.0f%%, from counts of some ranges; %s rows sampled", max(1, 200*rows.Error), number(rows.Sampled))
	}
	if a := x.actual; a != nil && a.job != nil {
		r.actual = number(a.job.RowCount)
	}
	return r
}

func (x *explained) indexRows(idx *estimate.IndexEstimate) []explainRow {
	size := explainRow{item: itemIndexBytes, name: idx.Name, estimate: number(idx.Bytes), info: estimate.Bytes(idx.Bytes)}
	if idx.Entries >= leastEntries { // of fewer the file itself has most of the bytes
		size.info += fmt.Sprintf(", %s entries of %.1f bytes", number(idx.Entries), float64(idx.Bytes)/float64(idx.Entries))
	}
	if n := x.estimation.Replicas; n > 1 {
		size.info += fmt.Sprintf(", in each of %d replicas", n)
	}
	if x.actual != nil {
		if n, ok := x.actual.indexBytes[strings.ToLower(idx.Name)]; ok {
			size.actual = number(n)
		}
	}
	rows := []explainRow{size}
	if idx.Beginning != "" {
		rows = append(rows, explainRow{item: itemExisting, name: idx.Name, estimate: idx.Beginning, info: "begins with these columns already"})
	}
	if d := idx.Duplicates; d != nil {
		rows = append(rows, x.duplicateRow(idx.Name, d))
	}
	return rows
}

// duplicateRow says how many rows have equal values in a unique index, as a part of all.
func (x *explained) duplicateRow(index string, d *estimate.Duplicates) explainRow {
	r := explainRow{item: itemDuplicates, name: index}
	sampled := number(x.estimation.Rows.Sampled)
	switch {
	case d.Found > 0:
		r.estimate, r.info = "found", fmt.Sprintf("%s of %s sampled rows have the values of another one", number(d.Found), sampled)
	case d.AtMost == 0:
		r.estimate, r.info = "none", "all rows were looked at"
	default:
		r.estimate = "none found"
		r.info = fmt.Sprintf("in %s sampled rows; at most %.2g%% of all rows have equal values (95%% sure)", sampled, 100*d.AtMost)
	}
	return r
}

// rowErrors is the error that sampled rows would end the build with, with their values for those who may SELECT them.
func (x *explained) rowErrors() (explainRow, bool) {
	rows := x.estimation.RowsError
	if rows == nil {
		return explainRow{}, false
	}
	err := rows.Err
	if !x.maySelect {
		if err = rows.Shown; err == nil {
			err = job.WithoutValues(job.ErrorOf(rows.Err))
		}
	}
	e := job.ErrorOf(err)
	return explainRow{item: itemRowErrors, estimate: strconv.Itoa(int(e.Code())), info: e.GetMsg()}, true
}

func (x *explained) resourceRows() []explainRow {
	e := x.estimation
	need := make(map[string]estimate.Need)
	for _, n := range e.Needs {
		need[n.Resource] = n
	}
	free := func(resource, more string) string {
		n := need[resource]
		if !n.Known {
			return "free space unknown"
		}
		return fmt.Sprintf("%s needed at least, %s free%s", estimate.Bytes(n.Bytes), estimate.Bytes(n.Free), more)
	}
	read := explainRow{item: itemReadBytes, estimate: number(e.ReadBytes), info: estimate.Bytes(e.ReadBytes)}
	if x.byTiDB {
		return []explainRow{read, {item: itemStore, estimate: number(e.StoreBytes), info: estimate.Bytes(e.StoreBytes) + "; " + free(estimate.Store, "")}}
	}
	memory := explainRow{item: itemMemory, estimate: number(e.MemoryBytes), info: estimate.Bytes(e.MemoryBytes) + "; " + free(estimate.Memory, "")}
	temp := explainRow{item: itemTemp, estimate: number(e.TempBytes), info: estimate.Bytes(e.TempBytes) + "; " + free(estimate.Temp, "")}
	if e.SpilledBytes > 0 {
		temp.info += fmt.Sprintf("; %s are sorted there", estimate.Bytes(e.SpilledBytes))
	}
	if e.Rounds > 1 {
		temp.info += fmt.Sprintf(", in %d rounds", e.Rounds)
	}
	more := ""
	if e.Replicas > 1 {
		more = fmt.Sprintf(", %d replicas", e.Replicas)
	}
	store := explainRow{item: itemStore, estimate: number(e.StoreBytes), info: estimate.Bytes(e.StoreBytes) + "; " + free(estimate.Store, more)}
	if a := x.actual; a != nil && a.result != nil {
		memory.actual, temp.actual = number(a.result.PeakMemoryBytes), number(a.result.PeakTempBytes)
		store.actual = number(int64(a.result.IngestedBytes) * int64(e.Replicas))
	}
	return []explainRow{read, memory, temp, store}
}

func (x *explained) timeRows() []explainRow {
	total := explainRow{item: itemSeconds, estimate: unknownValue}
	if x.actual != nil {
		total.actual = seconds(x.actual.seconds)
	}
	took := make(map[string]float64)
	if a := x.actual; a != nil && a.job != nil {
		for _, s := range a.job.Stages {
			took[s.Stage] = s.Seconds
		}
	}
	e := x.estimation
	switch {
	case e == nil:
		total.info = x.unknown
		return []explainRow{total}
	case x.byTiDB:
		total.info = "the time that TiDB takes is not estimated"
		return []explainRow{total}
	}
	total.estimate = seconds(e.Seconds.Low) + "-" + seconds(e.Seconds.High)
	total.info = fmt.Sprintf("once it is its turn: %s, %d workers", measured(e.MeasuredBuilds), e.Workers)
	if e.Share < 1 {
		total.info += fmt.Sprintf(", which have %.0f%% of the processors beside the statements of now", 100*e.Share)
	}
	if e.WriteLimit > 0 {
		total.info += fmt.Sprintf(", %s/s may be written", estimate.Bytes(e.WriteLimit))
	}
	rows := []explainRow{total}
	for _, s := range e.Stages {
		r := explainRow{item: itemStage, name: s.Stage, estimate: seconds(s.Seconds)}
		if t, ok := took[s.Stage]; ok {
			r.actual = seconds(t)
		}
		rows = append(rows, r)
	}
	return rows
}

func measured(builds int) string {
	switch builds {
	case 0:
		return "no build of this server to go by yet"
	case 1:
		return "by one build of this server"
	}
	return fmt.Sprintf("by %d builds of this server", builds)
}

func (x *explained) jobsAhead() explainRow {
	ids := x.estimation.JobsAhead
	r := explainRow{item: itemJobsAhead, estimate: strconv.Itoa(len(ids))}
	if ids == nil {
		r.estimate, r.info = unknownValue, "the queue was not read in time"
	}
	if len(ids) > 0 {
		const shown = 5
		var texts []string
		for _, id := range ids[:min(len(ids), shown)] {
			texts = append(texts, strconv.FormatInt(id, 10))
		}
		r.info = "on this table: " + strings.Join(texts, ", ")
		if len(ids) > shown {
			r.info += ", ..."
		}
	}
	return r
}

func (x *explained) transactions() explainRow {
	e := x.estimation
	r := explainRow{item: itemTransactions, estimate: strconv.Itoa(e.Transactions)}
	if e.Transactions > 0 {
		r.info = fmt.Sprintf("that use the table and would be waited for, the oldest open for %s", e.OldestTransaction.Round(time.Second))
	}
	return r
}

func (x *explained) builtBy() explainRow {
	r := explainRow{item: itemBuiltBy, estimate: config.EngineFastddl}
	if x.byTiDB {
		r.estimate, r.info = config.EngineTiDB, x.left
	}
	return r
}

func (x *explained) verdict() explainRow {
	r := explainRow{item: itemVerdict}
	e := x.estimation
	switch {
	case x.nothing:
		r.estimate, r.info = string(estimate.Fits), "the indexes are there already: nothing is to do"
	case e == nil:
		r.estimate, r.info = string(estimate.Unknown), x.unknown
	default:
		r.estimate, r.info = string(e.Verdict), e.Missing
		if e.RowsError != nil {
			r.info = strings.TrimPrefix(r.info+"; the build would end with an error: see "+itemRowErrors, "; ")
		}
	}
	return r
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// seconds are shown with as many digits as they are worth.
func seconds(s float64) string {
	switch {
	case s < 10:
		return strconv.FormatFloat(s, 'f', 2, 64)
	case s < 100:
		return strconv.FormatFloat(s, 'f', 1, 64)
	}
	return strconv.FormatFloat(s, 'f', 0, 64)
}

// explainDocument is FORMAT = 'json'.
type explainDocument struct {
	Table    string           `json:"table"`
	BuiltBy  string           `json:"built_by"`
	Reason   string           `json:"reason,omitempty"`
	Verdict  string           `json:"verdict"`
	Info     string           `json:"info,omitempty"`
	Estimate any              `json:"estimate,omitempty"`
	RowError *explainRowError `json:"row_error,omitempty"`
	Actual   *explainActual   `json:"actual,omitempty"`
}

type explainRowError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type explainActual struct {
	Seconds     float64          `json:"seconds"`
	Rows        int64            `json:"rows,omitempty"`
	Stages      []job.StageTime  `json:"stages,omitempty"`
	IndexBytes  map[string]int64 `json:"index_bytes,omitempty"`
	MemoryBytes int64            `json:"memory_bytes,omitempty"`
	TempBytes   int64            `json:"temp_bytes,omitempty"`
	StoreBytes  int64            `json:"store_bytes,omitempty"`
}

// json returns the document of an EXPLAIN.
func (x *explained) json() (string, error) {
	verdict := x.verdict()
	doc := explainDocument{Table: x.table.Name.O, BuiltBy: x.builtBy().estimate, Reason: x.left, Verdict: verdict.estimate, Info: verdict.info}
	if x.table.Schema.O != "" {
		doc.Table = x.table.Schema.O + "." + doc.Table
	}
	if x.estimation != nil {
		doc.Estimate = x.estimation
		if r, ok := x.rowErrors(); ok {
			code, err := strconv.Atoi(r.estimate)
			if err != nil {
				return "", err
			}
			doc.RowError = &explainRowError{code, r.info}
		}
	}
	if a := x.actual; a != nil {
		doc.Actual = &explainActual{Seconds: a.seconds, IndexBytes: a.indexBytes}
		if a.job != nil {
			doc.Actual.Rows, doc.Actual.Stages = a.job.RowCount, a.job.Stages
		}
		if a.result != nil {
			doc.Actual.MemoryBytes, doc.Actual.TempBytes, doc.Actual.StoreBytes = a.result.PeakMemoryBytes, a.result.PeakTempBytes, int64(a.result.IngestedBytes)
		}
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode the estimate: %w", err)
	}
	return string(text), nil
}
