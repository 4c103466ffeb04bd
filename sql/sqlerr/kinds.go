package sqlerr

import (
	"regexp"
	"strconv"
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/analyzer/analyzererrors"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/pingcap/tidb/pkg/errno"
	goerrors "gopkg.in/src-d/go-errors.v1"
)

// rule translates one kind of go-mysql-server error. In text, $1 to $9 stand
// for the arguments of the kind, $db for the database of the table or routine
// $1, $clause for the clause that the column stands in, $type for MySQL's word
// for the type $2, $cmd for the statement's first word; an empty text keeps the
// error's own.
type rule struct {
	kind   *goerrors.Kind
	number uint16
	text   string
}

var rules = []rule{
	// Objects.
	{gms.ErrTableNotFound, errno.ErrNoSuchTable, "Table '$db.$1' doesn't exist"},
	{gms.ErrTableAlreadyExists, errno.ErrTableExists, "Table '$1' already exists"},
	{gms.ErrUnknownTable, errno.ErrBadTable, ""},
	{gms.ErrDatabaseNotFound, errno.ErrBadDB, "Unknown database '$1'"},
	{gms.ErrDatabaseExists, errno.ErrDBCreateExists, "Can't create database '$1'; database exists"},
	{gms.ErrDatabaseSchemaExists, errno.ErrDBCreateExists, "Can't create database '$1'; database exists"},
	{gms.ErrNoDatabaseSelected, errno.ErrNoDB, "No database selected"},
	{gms.ErrDatabaseNoDatabaseSchemaSelectedCreate, errno.ErrNoDB, "No database selected"},
	{gms.ErrInvalidDatabaseName, errno.ErrWrongDBName, "Incorrect database name '$1'"},
	{gms.ErrExistingView, errno.ErrTableExists, "Table '$2' already exists"},
	{gms.ErrViewDoesNotExist, errno.ErrBadTable, "Unknown table '$1.$2'"},
	{gms.ErrInvalidRefInView, errno.ErrViewInvalid, ""},
	{gms.ErrExpectedTableFoundView, errno.ErrWrongObject, "'$db.$1' is not BASE TABLE"},
	{plan.ErrNotView, errno.ErrWrongObject, ""},
	{gms.ErrDuplicateAliasOrTable, errno.ErrNonuniqTable, "Not unique table/alias: '$1'"},
	{gms.ErrIdentifierIsTooLong, errno.ErrTooLongIdent, ""},
	{gms.ErrFunctionNotFound, errno.ErrSpDoesNotExist, "FUNCTION $db.$1 does not exist"},
	{gms.ErrTableFunctionNotFound, errno.ErrSpDoesNotExist, "FUNCTION $db.$1 does not exist"},
	{gms.ErrStoredProcedureAlreadyExists, errno.ErrSpAlreadyExists, "PROCEDURE $1 already exists"},
	{gms.ErrStoredProcedureDoesNotExist, errno.ErrSpDoesNotExist, "PROCEDURE $db.$1 does not exist"},
	{gms.ErrCallIncorrectParameterCount, errno.ErrSpWrongNoOfArgs, "Incorrect number of arguments for PROCEDURE $db.$1; expected $2, got $3"},
	{gms.ErrTriggerDoesNotExist, errno.ErrTrgDoesNotExist, "Trigger does not exist"},
	{gms.ErrEventAlreadyExists, errno.ErrEventAlreadyExists, ""},
	{gms.ErrEventDoesNotExist, errno.ErrEventDoesNotExist, "Unknown event '$1'"},
	{gms.ErrUnknownEvent, errno.ErrEventDoesNotExist, ""},

	// Columns.
	{gms.ErrColumnNotFound, errno.ErrBadField, "Unknown column '$1' in '$clause'"},
	{gms.ErrTableColumnNotFound, errno.ErrBadField, "Unknown column '$1.$2' in '$clause'"},
	{gms.ErrUnknownColumn, errno.ErrBadField, "Unknown column '$1' in '$clause'"}, // $2 is the clause or the table
	{gms.ErrMisusedAlias, errno.ErrBadField, "Unknown column '$1' in '$clause'"},
	{analyzer.ErrOrderByColumnIndex, errno.ErrBadField, "Unknown column '$1' in 'order clause'"},
	{gms.ErrAmbiguousColumnName, errno.ErrNonUniq, "Column '$1' in $clause is ambiguous"},
	{gms.ErrAmbiguousColumnOrAliasName, errno.ErrNonUniq, "Column '$1' in $clause is ambiguous"},
	{gms.ErrAmbiguousColumnInOrderBy, errno.ErrNonUniq, "Column '$1' in order clause is ambiguous"},
	{gms.ErrColumnExists, errno.ErrDupFieldName, "Duplicate column name '$1'"},
	{gms.ErrDuplicateColumn, errno.ErrDupFieldName, "Duplicate column name '$1'"},
	{gms.ErrColumnSpecifiedTwice, errno.ErrFieldSpecifiedTwice, "Column '$1' specified twice"},
	{gms.ErrInvalidColumnDefaultValue, errno.ErrInvalidDefault, ""},
	{gms.ErrIncompatibleDefaultType, errno.ErrInvalidDefault, ""},
	{gms.ErrGeneratedColumnValue, errno.ErrBadGeneratedColumn, "The value specified for generated column '$1' in table '$2' is not allowed."},
	{gms.ErrStarUnsupported, errno.ErrParse, ""},
	{gms.ErrColumnCountMismatch, errno.ErrViewWrongList, ""},

	// Rows and values.
	{gms.ErrPrimaryKeyViolation, errno.ErrDupEntry, "PRIMARY"},
	{gms.ErrUniqueKeyViolation, errno.ErrDupEntry, "UNIQUE"},
	{gms.ErrDuplicateEntry, errno.ErrDupEntry, ""},
	{gms.ErrInsertIntoNonNullableProvidedNull, errno.ErrBadNull, "Column '$1' cannot be null"},
	{gms.ErrInsertIntoNonNullableDefaultNullColumn, errno.ErrNoDefaultForField, ""},
	{gms.ErrColValCountMismatch, errno.ErrWrongValueCountOnRow, ""},
	{gms.ErrInsertIntoMismatchValueCount, errno.ErrWrongValueCountOnRow, "Column count doesn't match value count at row 1"},
	{gms.ErrCheckConstraintViolated, erCheckConstraintViolated, "Check constraint '$1' is violated."},
	{gms.ErrValueOutOfRange, errno.ErrWarnDataOutOfRange, "Out of range value: $1 for type $2"},
	{types.ErrConvertToDecimalLimit, errno.ErrWarnDataOutOfRange, "Out of range value for column of type decimal"},
	{gms.ErrInvalidValue, errno.ErrTruncatedWrongValueForField, "Incorrect $type value: '$1'"},
	{gms.ErrInvalidValueType, errno.ErrTruncatedWrongValueForField, ""},
	{gms.ErrTruncatedIncorrect, errno.ErrTruncatedWrongValue, "Truncated incorrect $1 value: '$2'"},
	{gms.ErrIncorrectValue, errno.ErrTruncatedWrongValue, ""},
	{types.ErrConvertingToTime, errno.ErrTruncatedWrongValue, ""},
	{types.ErrConvertingToTimeOutOfRange, errno.ErrTruncatedWrongValue, "Incorrect $2 value: '$1'"},
	{types.ErrConvertingToTimeType, errno.ErrTruncatedWrongValue, "Incorrect time value: '$1'"},
	{types.ErrConvertingToDecimal, errno.ErrTruncatedWrongValueForField, "Incorrect decimal value: '$1'"},
	{types.ErrConvertingToYear, errno.ErrTruncatedWrongValueForField, "Incorrect year value: '$1'"},
	{types.ErrLengthBeyondLimit, errno.ErrDataTooLong, "Data too long for column '$2' at row 1"},
	{types.ErrBadCharsetString, errno.ErrTruncatedWrongValueForField, ""},
	{types.ErrDataTruncatedForColumn, errno.WarnDataTruncated, "Data truncated for column '$1' at row 1"},
	{types.ErrDataTruncatedForColumnAtRow, errno.WarnDataTruncated, ""},
	{types.ErrConvertingToEnum, errno.WarnDataTruncated, ""},
	{gms.ErrConvertingToSet, errno.WarnDataTruncated, ""},
	{gms.ErrInvalidSetValue, errno.WarnDataTruncated, ""},
	{types.ErrLengthTooLarge, errno.ErrTooBigFieldlength, "Column length too big for column (max = $2); use BLOB or TEXT instead"},
	{expression.ErrIntDivDataOutOfRange, errno.ErrDataOutOfRange, "BIGINT value is out of range in '($1 DIV $2)'"},
	{function.ErrDivisionByZero, errno.ErrDivisionByZero, "Division by 0"},
	{function.ErrTooHighPrecision, errno.ErrTooBigPrecision, "Too-big precision $1 specified for '$2'. Maximum is $3."},
	{gms.ErrInvalidJSONText, 3141, ""},
	{gms.ErrInvalidJSONArgument, 3146, ""},
	{gms.ErrInvalidJson, 3140, ""},

	// Keys and foreign keys.
	{gms.ErrDuplicateKey, errno.ErrDupKeyName, ""},
	{gms.ErrMultiplePrimaryKeysDefined, errno.ErrMultiplePriKey, "Multiple primary key defined"},
	{gms.ErrWrongAutoKey, errno.ErrWrongAutoKey, "Incorrect table definition; there can be only one auto column and it must be defined as a key"},
	{gms.ErrInvalidAutoIncCols, errno.ErrWrongAutoKey, "Incorrect table definition; there can be only one auto column and it must be defined as a key"},
	{gms.ErrKeyColumnDoesNotExist, errno.ErrKeyColumnDoesNotExits, "Key column '$1' doesn't exist in table"},
	{gms.ErrUnknownIndexColumn, errno.ErrKeyColumnDoesNotExits, "Key column '$1' doesn't exist in table"},
	{gms.ErrTooManyKeyParts, errno.ErrTooManyKeyParts, "Too many key parts specified; max $1 parts allowed"},
	{gms.ErrCantDropFieldOrKey, errno.ErrCantDropFieldOrKey, "Can't DROP '$1'; check that column/key exists"},
	{gms.ErrCantDropIndex, 1553, "Cannot drop index '$1': needed in a foreign key constraint"},
	{plan.ErrIndexNotFound, errno.ErrKeyDoesNotExist, "Key '$1' doesn't exist in table '$2'"},
	{planbuilder.ErrPrimaryKeyOnNullField, errno.ErrPrimaryCantHaveNull, "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead"},
	{gms.ErrForeignKeyChildViolation, errno.ErrNoReferencedRow2, ""},
	{gms.ErrForeignKeyNotResolved, errno.ErrNoReferencedRow2, ""},
	{gms.ErrForeignKeyParentViolation, errno.ErrRowIsReferenced2, ""},
	{gms.ErrJSONIndex, errno.ErrJSONUsedAsKey, ""},

	// Queries.
	{gms.ErrExpectedSingleRow, errno.ErrSubqueryNo1Row, "Subquery returns more than 1 row"},
	{gms.ErrMoreThanOneRow, errno.ErrTooManyRows, ""},
	{gms.ErrInvalidOperandColumns, errno.ErrOperandColumns, "Operand should contain $1 column(s)"},
	{gms.ErrColumnNumberDoesNotMatch, errno.ErrWrongNumberOfColumnsInSelect, ""},
	{planbuilder.ErrUnionSchemasDifferentLength, errno.ErrWrongNumberOfColumnsInSelect, "The used SELECT statements have a different number of columns"},
	{planbuilder.ErrQualifiedOrderBy, errno.ErrTablenameNotAllowedHere, "Table '$1' from one of the SELECTs cannot be used in global ORDER clause"},
	{gms.ErrNonAggregatedColumnWithoutGroupBy, errno.ErrMixOfGroupFuncAndFields, "In aggregated query without GROUP BY, expression #$1 of SELECT list contains nonaggregated column '$2'; this is incompatible with sql_mode=only_full_group_by"},
	{analyzererrors.ErrValidationGroupBy, errno.ErrFieldNotInGroupBy, "Expression '$1' of SELECT list is not in GROUP BY clause and contains nonaggregated column which is not functionally dependent on columns in GROUP BY clause; this is incompatible with sql_mode=only_full_group_by"},
	{gms.ErrNoTablesUsed, errno.ErrNoTablesUsed, ""},
	{gms.ErrInvalidArgumentNumber, errno.ErrWrongParamcountToNativeFct, "Incorrect parameter count in the call to native function '$1'"},
	{gms.ErrInvalidArgument, errno.ErrWrongArguments, "Incorrect arguments to $1"},
	{gms.ErrInvalidArgumentType, errno.ErrWrongArguments, "Incorrect arguments to $1"},
	{gms.ErrInvalidArgumentDetails, errno.ErrWrongArguments, "Incorrect arguments to $1"},
	{plan.ErrUpdateForTableNotSupported, errno.ErrNonUpdatableTable, ""},
	{plan.ErrUpdateNotSupported, errno.ErrOpenAsReadonly, "Table is read only"},
	{plan.ErrInsertIntoNotSupported, errno.ErrOpenAsReadonly, "Table is read only"},
	{plan.ErrReplaceIntoNotSupported, errno.ErrOpenAsReadonly, "Table is read only"},
	{plan.ErrDeleteFromNotSupported, errno.ErrOpenAsReadonly, "Table is read only"},
	{gms.ErrUnresolvedTableLock, 3568, "Unresolved table name `$1` in locking clause."},
	{gms.ErrUnknownWindowName, errno.ErrWindowNoSuchWindow, "Window name '$1' is not defined."},
	{gms.ErrRecursiveCTEMissingUnion, errno.ErrCTERecursiveRequiresUnion, ""},
	{gms.ErrCteRecursionLimitExceeded, errno.ErrCTEMaxRecursionDepth, ""},

	// Transactions and prepared statements.
	{gms.ErrLockDeadlock, errno.ErrLockDeadlock, "Deadlock found when trying to get lock; try restarting transaction"},
	{gms.ErrReadOnlyTransaction, 1792, "Cannot execute statement in a READ ONLY transaction."},
	{gms.ErrSavepointDoesNotExist, errno.ErrSpDoesNotExist, ""},
	{gms.ErrUnknownPreparedStatement, errno.ErrUnknownStmtHandler, ""},
	{gms.ErrUnboundPreparedStatementVariable, errno.ErrWrongArguments, "Incorrect arguments to EXECUTE"},

	// Variables, character sets, time zones.
	{gms.ErrUnknownSystemVariable, errno.ErrUnknownSystemVariable, ""},
	{gms.ErrSystemVariableReadOnly, errno.ErrIncorrectGlobalLocalVar, ""},
	{gms.ErrSystemVariableSessionOnly, errno.ErrLocalVariable, ""},
	{gms.ErrSystemVariableGlobalOnly, errno.ErrGlobalVariable, ""},
	{gms.ErrInvalidSystemVariableValue, errno.ErrWrongValueForVar, ""},
	{gms.ErrSystemVariableCodeFail, errno.ErrWrongValueForVar, "Variable '$2' can't be set to the value of '$1'"},
	{gms.ErrInvalidTimeZone, errno.ErrUnknownTimeZone, "Unknown or incorrect time zone: '$1'"},
	{gms.ErrCharSetUnknown, errno.ErrUnknownCharacterSet, "Unknown character set: '$1'"},
	{gms.ErrCharSetNotYetImplementedTemp, errno.ErrUnknownCharacterSet, "Unknown character set: '$1'"},
	{gms.ErrCollationUnknown, errno.ErrUnknownCollation, "Unknown collation: '$1'"},
	{gms.ErrCollationNotYetImplementedTemp, errno.ErrUnknownCollation, "Unknown collation: '$1'"},
	{gms.ErrCollationInvalidForCharSet, errno.ErrCollationCharsetMismatch, ""},
	{gms.ErrCollationIllegalMix, errno.ErrCantAggregate2collations, "Illegal mix of collations ($1) and ($2) for operation '='"},

	// Stored programs.
	{gms.ErrDeclareVariableOrderInvalid, errno.ErrSpVarcondAfterCurshndlr, "Variable or condition declaration after cursor or handler declaration"},
	{gms.ErrDeclareConditionOrderInvalid, errno.ErrSpVarcondAfterCurshndlr, "Variable or condition declaration after cursor or handler declaration"},
	{gms.ErrDeclareCursorOrderInvalid, errno.ErrSpCursorAfterHandler, "Cursor declaration after handler declaration"},
	{gms.ErrDeclareVariableDuplicate, errno.ErrSpDupVar, "Duplicate variable: $1"},
	{gms.ErrDeclareConditionDuplicate, errno.ErrSpDupCond, "Duplicate condition: $1"},
	{gms.ErrDeclareConditionNotFound, errno.ErrSpCondMismatch, "Undefined CONDITION: $1"},
	{gms.ErrDeclareCursorDuplicate, errno.ErrSpDupCurs, "Duplicate cursor: $1"},
	{gms.ErrDeclareHandlerDuplicate, errno.ErrSpDupHandler, "Duplicate handler declared in the same block"},
	{gms.ErrLoopRedefinition, errno.ErrSpLabelRedefine, "Redefining label $1"},
	{gms.ErrLoopLabelNotFound, errno.ErrSpLilabelMismatch, "$1 with no matching label: $2"},
	{gms.ErrCursorNotFound, errno.ErrSpCursorMismatch, "Undefined CURSOR: $1"},
	{gms.ErrCursorAlreadyOpen, errno.ErrSpCursorAlreadyOpen, "Cursor is already open"},
	{gms.ErrCursorNotOpen, errno.ErrSpCursorNotOpen, "Cursor is not open"},
	{gms.ErrFetchIncorrectCount, errno.ErrSpWrongNoOfFetchArgs, "Incorrect number of FETCH variables"},

	// Users and privileges.
	{gms.ErrDatabaseAccessDeniedForUser, errno.ErrDBaccessDenied, ""},
	{gms.ErrTableAccessDeniedForUser, errno.ErrTableaccessDenied, "$cmd command denied to user $1 for table '$2'"},
	{gms.ErrPrivilegeCheckFailed, errno.ErrTableaccessDenied, "$cmd command denied to user $1"},
	{gms.ErrUserCreationFailure, errno.ErrCannotUser, ""},
	{gms.ErrUserDeletionFailure, errno.ErrCannotUser, ""},
	{gms.ErrUserAlterFailure, errno.ErrCannotUser, ""},
	{gms.ErrRoleCreationFailure, errno.ErrCannotUser, ""},
	{gms.ErrRoleDeletionFailure, errno.ErrCannotUser, ""},
	{gms.ErrUserNameTooLong, errno.ErrWrongStringLength, ""},
	{gms.ErrUserHostTooLong, errno.ErrWrongStringLength, ""},
	{gms.ErrGrantUserDoesNotExist, errno.ErrCantCreateUserWithGrant, ""},
	{gms.ErrRevokeUserDoesNotExist, errno.ErrNonexistingGrant, ""},
	{gms.ErrShowGrantsUserDoesNotExist, errno.ErrNonexistingGrant, ""},
	{gms.ErrGrantRevokeIllegalPrivilege, errno.ErrIllegalGrantForTable, "Illegal GRANT/REVOKE command; please consult the manual to see which privileges can be used"},

	// What this server does not do.
	{gms.ErrUnsupportedFeature, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support '$1'"},
	{gms.ErrUnsupportedSyntax, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support '$1'"},
	{gms.ErrTemporaryTableNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'temporary tables'"},
	{gms.ErrViewsNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'views'"},
	{gms.ErrTriggersNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'triggers'"},
	{gms.ErrStoredProceduresNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'stored procedures'"},
	{gms.ErrEventsNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'events'"},
	{gms.ErrCreateTableNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'CREATE TABLE in a stored program'"},
	{gms.ErrDropTableNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'DROP TABLE in a stored program'"},
	{gms.ErrRenameTableNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'RENAME TABLE in a stored program'"},
	{gms.ErrAlterTableNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'ALTER TABLE in a stored program'"},
	{plan.ErrTruncateNotSupported, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'TRUNCATE in a stored program'"},
	{plan.ErrNotIndexable, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'CREATE INDEX in a stored program'"},
	{gms.ErrSessionDoesNotSupportPersistence, errno.ErrNotSupportedYet, "This version of fastddl doesn't yet support 'SET PERSIST'"},
	{gms.ErrReadOnly, errno.ErrOptionPreventsStatement, "The MySQL server is running with the --read-only option so it cannot execute this statement"},
	{gms.ErrDatabaseWriteLocked, errno.ErrOptionPreventsStatement, "The MySQL server is running with the --read-only option so it cannot execute this statement"},
	{gms.ErrSecureFilePriv, errno.ErrOptionPreventsStatement, ""},
	{gms.ErrFileExists, errno.ErrFileExists, ""},
	{gms.ErrLoadDataCannotOpen, errno.ErrFileNotFound, "Can't find file: '$1'"},
	{gms.ErrInvalidSyntax, errno.ErrParse, ""},
}

// pattern is a rule made ready to be matched against the text of an error.
type pattern struct {
	rule
	// prefix is the literal text in front of the first argument: a cheap test
	// that spares most regular expressions.
	prefix string
	re     *regexp.Regexp
	quoted []bool // whether argument i was printed with %q
}

var patterns = func() []pattern {
	out := make([]pattern, 0, len(rules))
	for _, r := range rules {
		out = append(out, compile(r))
	}
	return out
}()

var verb = regexp.MustCompile(`%[#+.0-9]*[vsdqTx]`)

// compile turns the message of a kind, a fmt format, into a regular expression.
// Kinds with a cause print as "message: cause".
func compile(r rule) pattern {
	format := r.kind.Message
	p := pattern{rule: r}
	var re strings.Builder
	re.WriteString(`(?s)^`)
	at := 0
	for _, loc := range verb.FindAllStringIndex(format, -1) {
		if at == 0 {
			p.prefix = format[:loc[0]]
		}
		re.WriteString(regexp.QuoteMeta(format[at:loc[0]]))
		if quoted := format[loc[1]-1] == 'q'; quoted {
			re.WriteString(`("(?:[^"\\]|\\.)*")`)
			p.quoted = append(p.quoted, true)
		} else {
			re.WriteString(`(.*?)`)
			p.quoted = append(p.quoted, false)
		}
		at = loc[1]
	}
	if at == 0 {
		p.prefix = format
	}
	re.WriteString(regexp.QuoteMeta(format[at:]))
	if at == 0 {
		re.WriteString(`(?:: (.*))?`)
		p.quoted = append(p.quoted, false)
	}
	re.WriteString(`$`)
	p.re = regexp.MustCompile(re.String())
	return p
}

// args returns the arguments that the error was made with, or false if text is
// not of this kind.
func (p *pattern) args(text string) ([]string, bool) {
	if !strings.HasPrefix(text, p.prefix) {
		return nil, false
	}
	m := p.re.FindStringSubmatch(text)
	if m == nil {
		return nil, false
	}
	args := m[1:]
	for i, q := range p.quoted {
		if u, err := strconv.Unquote(args[i]); q && err == nil {
			args[i] = u
		}
	}
	return args, true
}

// fromKinds translates the text of a go-mysql-server error, or returns nil.
func (s Statement) fromKinds(text string) *mysql.SQLError {
	for i := range patterns {
		p := &patterns[i]
		args, ok := p.args(text)
		if !ok {
			continue
		}
		if p.kind == gms.ErrColumnNotFound && s.assigns(args[0]) {
			return New(errno.ErrUnknownSystemVariable, args[0])
		}
		return Newf(p.number, "%s", s.render(p, args, text))
	}
	return nil
}

func (s Statement) render(p *pattern, args []string, text string) string {
	switch p.kind {
	case gms.ErrPrimaryKeyViolation, gms.ErrUniqueKeyViolation:
		return duplicateEntry(args[0], p.text)
	}
	if p.text == "" || (p.kind == gms.ErrUnknownColumn && clauseName.MatchString(args[1])) {
		return text
	}
	return placeholder.ReplaceAllStringFunc(p.text, func(ph string) string {
		switch ph {
		case "$db":
			return s.database(args[0])
		case "$clause":
			if p.kind == gms.ErrTableColumnNotFound {
				return s.clause(args[1])
			}
			return s.clause(args[0])
		case "$cmd":
			return s.command()
		case "$type":
			return typeWord(args[1])
		default:
			return args[ph[1]-'1']
		}
	})
}

var placeholder = regexp.MustCompile(`\$(?:[1-9]|db\b|clause\b|cmd\b|type\b)`)

// clauseName tells the name of a clause from that of a table.
var clauseName = regexp.MustCompile(`^(?:field list|group statement|generated column function|[a-z]+ clause)$`)

// duplicateEntry words error 1062. Our tables put "'value' for key 't.name'"
// into the error; go-mysql-server's own (its system tables) put the row.
func duplicateEntry(cause, key string) string {
	switch {
	case strings.HasPrefix(cause, "Duplicate entry "):
		return cause
	case strings.Contains(cause, " for key "):
		return "Duplicate entry " + cause
	}
	value := strings.ReplaceAll(strings.Trim(cause, "[]"), ",", "-")
	return "Duplicate entry '" + value + "' for key '" + key + "'"
}

// typeWord is MySQL's word for a column type in "Incorrect integer value".
func typeWord(typ string) string {
	typ = strings.ToLower(typ)
	base := strings.FieldsFunc(typ, func(r rune) bool { return r == '(' || r == ' ' })
	if len(base) == 0 {
		return typ
	}
	switch base[0] {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "bit":
		return "integer"
	case "timestamp":
		return "datetime"
	default:
		return base[0]
	}
}
