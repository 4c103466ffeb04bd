package cop

import (
	"fmt"
	"math/big"
	"math/bits"
	"slices"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// newSum makes the states of a sum whose results have the given type: decimal for exact numbers, double for the rest.
func newSum(env *evalEnv, arg expression.Expression, result *types.FieldType) (aggregator, error) {
	exprs := []expression.Expression{arg}
	from := arg.GetType(env.eval)
	switch result.EvalType() {
	case types.ETDecimal:
		switch from.GetType() {
		case mysql.TypeNewDecimal:
			return &sumDecimal{arg: newColumns(env, exprs)}, nil
		case mysql.TypeTiny, mysql.TypeShort, mysql.TypeInt24, mysql.TypeLong, mysql.TypeLonglong, mysql.TypeYear:
			return &sumInt{arg: newColumns(env, exprs), unsigned: mysql.HasUnsignedFlag(from.GetFlag())}, nil
		}
		inner := newView(env, exprs)
		cast := expression.WrapWithCastAsDecimal(env.expr, inner.refs(env)[0])
		return &sumDecimal{view: inner, arg: newColumns(env, []expression.Expression{cast})}, nil
	case types.ETReal:
		if from.GetType() == mysql.TypeDouble || from.GetType() == mysql.TypeFloat {
			return &sumReal{arg: newColumns(env, exprs), single: from.GetType() == mysql.TypeFloat}, nil
		}
		inner := newView(env, exprs)
		cast := expression.WrapWithCastAsReal(env.expr, inner.refs(env)[0])
		return &sumReal{view: inner, arg: newColumns(env, []expression.Expression{cast})}, nil
	}
	return nil, fmt.Errorf("sum of type %s is not supported", result)
}

// sumDecimal adds decimals up. A partial sum is not rounded, the SQL layer rounds the total.
type sumDecimal struct {
	view   *view // what arg is a cast of, nil if it is no cast
	arg    *columns
	states []decimalState
}

type decimalState struct {
	sum   types.MyDecimal
	valid bool // false until there is a value that is not null
}

func (s *sumDecimal) width() int { return 1 }

func (s *sumDecimal) grow(n int) { s.states = growTo(s.states, n) }

func (s *sumDecimal) drop(n int) { s.states = slices.Delete(s.states, 0, n) }

func (s *sumDecimal) update(env *evalEnv, batch *chunk.Chunk, groups []int) error {
	col, err := evalArg(env, s.view, s.arg, batch)
	if err != nil {
		return err
	}
	values := col.Decimals()
	var sum types.MyDecimal
	for i, g := range groups {
		if col.IsNull(i) {
			continue
		}
		state := &s.states[g]
		if !state.valid {
			state.sum, state.valid = values[i], true
			continue
		}
		if err := types.DecimalAdd(&state.sum, &values[i], &sum); err != nil {
			return err
		}
		state.sum = sum
	}
	return nil
}

func (s *sumDecimal) result(_ *evalEnv, from, to int, out *chunk.Chunk, col int) error {
	for i := from; i < to; i++ {
		if s.states[i].valid {
			out.AppendMyDecimal(col, &s.states[i].sum)
		} else {
			out.AppendNull(col)
		}
	}
	return nil
}

// sumReal adds floating point numbers up.
type sumReal struct {
	view   *view // as in sumDecimal
	arg    *columns
	single bool // the argument's values have 32 bits
	states []realState
}

type realState struct {
	sum   float64
	valid bool
}

func (s *sumReal) width() int { return 1 }

func (s *sumReal) grow(n int) { s.states = growTo(s.states, n) }

func (s *sumReal) drop(n int) { s.states = slices.Delete(s.states, 0, n) }

func (s *sumReal) update(env *evalEnv, batch *chunk.Chunk, groups []int) error {
	col, err := evalArg(env, s.view, s.arg, batch)
	if err != nil {
		return err
	}
	for i, g := range groups {
		if col.IsNull(i) {
			continue
		}
		v := 0.0
		if s.single {
			v = float64(col.GetFloat32(i))
		} else {
			v = col.GetFloat64(i)
		}
		s.states[g].sum += v
		s.states[g].valid = true
	}
	return nil
}

func (s *sumReal) result(_ *evalEnv, from, to int, out *chunk.Chunk, col int) error {
	for _, state := range s.states[from:to] {
		if state.valid {
			out.AppendFloat64(col, state.sum)
		} else {
			out.AppendNull(col)
		}
	}
	return nil
}

// sumInt adds integers up, in 128 bits, which no number of rows can overflow.
type sumInt struct {
	arg      *columns
	unsigned bool
	states   []intState
}

type intState struct {
	high, low uint64 // two's complement
	valid     bool
}

func (s *sumInt) width() int { return 1 }

func (s *sumInt) grow(n int) { s.states = growTo(s.states, n) }

func (s *sumInt) drop(n int) { s.states = slices.Delete(s.states, 0, n) }

func (s *sumInt) update(env *evalEnv, batch *chunk.Chunk, groups []int) error {
	col, err := evalArg(env, nil, s.arg, batch)
	if err != nil {
		return err
	}
	for i, v := range col.Int64s() {
		if col.IsNull(i) {
			continue
		}
		state := &s.states[groups[i]]
		sign := uint64(v >> 63)
		if s.unsigned {
			sign = 0
		}
		var carry uint64
		state.low, carry = bits.Add64(state.low, uint64(v), 0)
		state.high, _ = bits.Add64(state.high, sign, carry)
		state.valid = true
	}
	return nil
}

func (s *sumInt) result(_ *evalEnv, from, to int, out *chunk.Chunk, col int) error {
	for _, state := range s.states[from:to] {
		if !state.valid {
			out.AppendNull(col)
			continue
		}
		sum, err := state.decimal()
		if err != nil {
			return err
		}
		out.AppendMyDecimal(col, sum)
	}
	return nil
}

func (s intState) decimal() (*types.MyDecimal, error) {
	switch {
	case s.high == 0:
		return types.NewDecFromUint(s.low), nil
	case s.high == ^uint64(0) && int64(s.low) < 0:
		return types.NewDecFromInt(int64(s.low)), nil
	}
	v := new(big.Int).SetUint64(s.high)
	if int64(s.high) < 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), 64))
	}
	v.Lsh(v, 64).Add(v, new(big.Int).SetUint64(s.low))
	sum := new(types.MyDecimal)
	return sum, sum.FromString(v.Append(nil, 10))
}

// evalArg evaluates a function's argument, over the view if there is one.
func evalArg(env *evalEnv, inner *view, arg *columns, batch *chunk.Chunk) (*chunk.Column, error) {
	if inner != nil {
		var err error
		if batch, err = inner.eval(env, batch); err != nil {
			return nil, err
		}
	}
	if err := arg.eval(env, batch); err != nil {
		return nil, err
	}
	return arg.column(batch, 0), nil
}
