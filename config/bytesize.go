package config

import (
	"fmt"

	"github.com/docker/go-units"
)

// ByteSize is a number of bytes. In the TOML file it is an integer or text
// with a binary unit, such as "256MiB".
type ByteSize int64

// UnmarshalTOML implements toml.Unmarshaler.
func (b *ByteSize) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case int64:
		*b = ByteSize(v)
		return nil
	case string:
		return b.Set(v)
	}
	return fmt.Errorf("%v is not a size: give an integer or text such as \"256MiB\"", v)
}

// Set parses text; it implements pflag.Value together with String and Type.
func (b *ByteSize) Set(s string) error {
	n, err := units.RAMInBytes(s)
	if err != nil {
		return fmt.Errorf("%q is not a size: %w", s, err)
	}
	*b = ByteSize(n)
	return nil
}

// String prints the size with a binary unit.
func (b ByteSize) String() string { return units.BytesSize(float64(b)) }

// Type names the kind of value in the help text.
func (b ByteSize) Type() string { return "size" }
