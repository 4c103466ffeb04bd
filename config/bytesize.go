package config

import (
	"fmt"
	"math"

	"github.com/docker/go-units"
)

// ByteSize is a number of bytes. In the TOML file it is an integer or text
// with a binary unit, such as "256MiB".
type ByteSize int64

// maxByteSize is above what any machine has, and far enough below the largest
// integer that sums of sizes do not overflow.
const maxByteSize = 1 << 60

// UnmarshalTOML implements toml.Unmarshaler.
func (b *ByteSize) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case int64:
		return b.set(fmt.Sprint(v), v)
	case string:
		return b.Set(v)
	}
	return fmt.Errorf("%v is not a size: give an integer or text such as \"256MiB\"", v)
}

// Set parses text; it implements pflag.Value together with String and Type.
func (b *ByteSize) Set(s string) error {
	n, err := parseSize(s)
	if err != nil {
		return err
	}
	return b.set(s, n)
}

func (b *ByteSize) set(text string, n int64) error {
	if n > maxByteSize {
		return fmt.Errorf("size %s %w", text, errTooLarge)
	}
	if n < 0 {
		return fmt.Errorf("size %s is negative", text)
	}
	*b = ByteSize(n)
	return nil
}

var errTooLarge = fmt.Errorf("is larger than %s", ByteSize(maxByteSize))

// parseSize reads a number of bytes with or without a unit.
func parseSize(text string) (int64, error) {
	n, err := units.RAMInBytes(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: %w", text, err)
	}
	// A product that does not fit into an int64 is its smallest or its largest value.
	if n == math.MinInt64 || n > maxByteSize {
		return 0, fmt.Errorf("size %s %w", text, errTooLarge)
	}
	return n, nil
}

// String prints the size with a binary unit. Zero has none: the help text omits a default
// of "0".
func (b ByteSize) String() string {
	if b == 0 {
		return "0"
	}
	return units.BytesSize(float64(b))
}

// Type names the kind of value in the help text.
func (b ByteSize) Type() string { return "size" }
