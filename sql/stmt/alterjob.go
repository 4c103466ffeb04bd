package stmt

import (
	"strconv"

	"github.com/docker/go-units"
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/types/parser_driver"

	"fastddl/config"
	"fastddl/sql/sqlerr"
)

// alterJob is ADMIN ALTER DDL JOBS id THREAD = .., BATCH_SIZE = .., MAX_WRITE_SPEED = ...
func (c *adminCommand) alterJob(ctx *gms.Context, _ environment) ([]gms.Row, error) {
	alteration, err := newAlteration(c.stmt.AlterJobOptions)
	if err != nil {
		return nil, err
	}
	if err := c.parser.opts.DDL.Alter(ctx, c.stmt.JobNumber, alteration); err != nil {
		return nil, err
	}
	return okRows(), nil
}

// newAlteration reads the options; of those that are given twice the last
// counts. Its errors are worded as TiDB's, which have no number of their own.
func newAlteration(options []*ast.AlterJobOption) (Alteration, error) {
	var a Alteration
	for _, o := range options {
		variable, known := alterOptions[o.Name]
		if !known {
			return a, sqlerr.Newf(errno.ErrUnknown, "unsupported admin alter ddl jobs config: %s", o.Name)
		}
		value, err := alterValue(o, variable == config.ReorgMaxWriteSpeed)
		if err != nil {
			return a, err
		}
		def, _ := config.LookupSysVar(variable)
		if value < def.Min || value > def.Max {
			return a, sqlerr.Newf(errno.ErrUnknown, "the value %d for %s is out of range [%d, %d]", value, o.Name, def.Min, def.Max)
		}
		n := int(value)
		switch variable {
		case config.ReorgWorkerCount:
			a.Threads = &n
		case config.ReorgBatchSize:
			a.BatchSize = &n
		case config.ReorgMaxWriteSpeed:
			a.MaxWriteSpeed = &value
		}
	}
	return a, nil
}

// alterOptions are the options, with the variables whose values they take.
var alterOptions = map[string]string{
	"thread": config.ReorgWorkerCount, "batch_size": config.ReorgBatchSize, "max_write_speed": config.ReorgMaxWriteSpeed,
}

// alterValue is an option's value: an integer, or, if inBytes, also a text such
// as '100MiB'.
func alterValue(o *ast.AlterJobOption, inBytes bool) (int64, error) {
	sign, expr := int64(1), o.Value
	if u, ok := expr.(*ast.UnaryOperationExpr); ok {
		if u.Op == opcode.Minus {
			sign = -1
		}
		expr = u.V
	}
	literal, _ := expr.(*driver.ValueExpr)
	if literal == nil {
		return 0, invalidValue(o.Name, inBytes)
	}
	switch v := literal.GetValue().(type) {
	case int64:
		return sign * v, nil
	case uint64:
		return 0, sqlerr.Newf(errno.ErrUnknown, "the value %s for %s is out of range", strconv.FormatUint(v, 10), o.Name)
	case string:
		if !inBytes {
			break
		}
		n, err := units.RAMInBytes(v)
		if err != nil {
			return 0, sqlerr.Newf(errno.ErrUnknown, "parse %s value error: %v", o.Name, err)
		}
		return n, nil
	}
	return 0, invalidValue(o.Name, inBytes)
}

func invalidValue(name string, inBytes bool) error {
	if inBytes {
		return sqlerr.Newf(errno.ErrUnknown, "the value for %s is invalid", name)
	}
	return sqlerr.Newf(errno.ErrUnknown, "the value for %s is invalid, only integer is allowed", name)
}
