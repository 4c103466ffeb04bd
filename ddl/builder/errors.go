package builder

import (
	"errors"

	pingcap "github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

// Errors of TiDB's infoschema and autoid packages, which are too heavy to
// import for their errors.
var (
	ErrDatabaseExists     = dbterror.ClassSchema.NewStd(errno.ErrDBCreateExists)
	ErrDatabaseDropExists = dbterror.ClassSchema.NewStd(errno.ErrDBDropExists)
	ErrDatabaseNotExists  = dbterror.ClassSchema.NewStd(errno.ErrBadDB)
	ErrNoDatabase         = dbterror.ClassSchema.NewStd(errno.ErrNoDB)
	ErrTableExists        = dbterror.ClassSchema.NewStd(errno.ErrTableExists)
	ErrTableDropExists    = dbterror.ClassSchema.NewStd(errno.ErrBadTable)
	ErrTableNotExists     = dbterror.ClassSchema.NewStd(errno.ErrNoSuchTable)
	ErrColumnExists       = dbterror.ClassSchema.NewStd(errno.ErrDupFieldName)
	ErrColumnNotExists    = dbterror.ClassSchema.NewStd(errno.ErrBadField)
	ErrKeyNameDuplicate   = dbterror.ClassSchema.NewStd(errno.ErrDupKeyName)
	ErrKeyNotExists       = dbterror.ClassSchema.NewStd(errno.ErrKeyDoesNotExist)
	ErrMultiplePriKey     = dbterror.ClassSchema.NewStd(errno.ErrMultiplePriKey)
	ErrTooManyKeyParts    = dbterror.ClassSchema.NewStd(errno.ErrTooManyKeyParts)
	ErrWrongAutoKey       = dbterror.ClassAutoid.NewStd(errno.ErrWrongAutoKey)
	ErrWrongColumnSpec    = dbterror.ClassAutoid.NewStd(errno.ErrWrongFieldSpec)
	ErrSchemaChanged      = dbterror.ClassSchema.NewStd(errno.ErrInfoSchemaChanged)
	ErrNonuniqTable       = dbterror.ClassSchema.NewStd(errno.ErrNonuniqTable)
)

// Unsupported returns error 8200 for a DDL that cannot be done.
func Unsupported(what string) error { return dbterror.ErrGeneralUnsupportedDDL.FastGenByArgs(what) }

// AsTerror returns the coded error that err is or wraps.
func AsTerror(err error) (*terror.Error, bool) {
	var te *terror.Error
	if errors.As(err, &te) {
		return te, true
	}
	te, ok := pingcap.Cause(err).(*terror.Error)
	return te, ok
}
