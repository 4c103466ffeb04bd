package check

import (
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/errno"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

var (
	errDataInconsistent = dbterror.ClassExecutor.NewStd(errno.ErrDataInconsistent)
	errAdminCheck       = dbterror.ClassExecutor.NewStd(errno.ErrAdminCheckTable)
	errKeyNotExists     = dbterror.ClassSchema.NewStd(errno.ErrKeyDoesNotExist)
)

// InconsistentError names the first row or entry that is wrong. It is, for
// errors.As, TiDB's error 8223.
type InconsistentError struct {
	Table, Index string
	// Handle is the handle of the row, as text.
	Handle string
	// IndexValues is what the index has and RecordValues what the row has;
	// empty if there is no such entry or row.
	IndexValues, RecordValues string

	coded error
}

func (e *InconsistentError) Error() string { return e.coded.Error() }

// Unwrap returns the error with TiDB's number.
func (e *InconsistentError) Unwrap() error { return e.coded }

func inconsistent(table, index string, h tkv.Handle, indexValues, recordValues string) error {
	e := &InconsistentError{Table: table, Index: index, IndexValues: indexValues, RecordValues: recordValues}
	if h != nil {
		e.Handle = h.String()
	}
	e.coded = errDataInconsistent.FastGenByArgs(table, index, e.Handle, indexValues, recordValues)
	return e
}

// undecodable says that a key or value cannot be read at all (error 8003).
func undecodable(what string, key []byte, err error) error {
	return fmt.Errorf("%w: %w", errAdminCheck.FastGen("TiDB admin check table failed: %s at key %x cannot be decoded", what, key), err)
}

// text prints values as the inconsistency errors show them.
func text(h tkv.Handle, values []types.Datum) string {
	parts := make([]string, len(values))
	for i := range values {
		s, err := values[i].ToString()
		switch {
		case values[i].IsNull():
			s = "NULL"
		case err != nil:
			s = fmt.Sprintf("<%v>", err)
		}
		parts[i] = s
	}
	return fmt.Sprintf("handle: %s, values: [%s]", h, strings.Join(parts, " "))
}
