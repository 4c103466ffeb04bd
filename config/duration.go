package config

import (
	"fmt"
	"time"
)

// Duration is a length of time. In the TOML file it is text with a unit, such
// as "10s"; a bare number is refused, since it says nothing about its unit.
type Duration time.Duration

// UnmarshalTOML implements toml.Unmarshaler.
func (d *Duration) UnmarshalTOML(v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("%v is not a duration: give it a unit, such as \"%vs\"", v, v)
	}
	return d.Set(s)
}

// Set parses text; it implements pflag.Value together with String and Type.
func (d *Duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as \"10s\" or \"5m\"", s)
	}
	*d = Duration(v)
	return nil
}

// String prints the duration with its units.
func (d Duration) String() string { return time.Duration(d).String() }

// Type names the kind of value in the help text.
func (d Duration) Type() string { return "duration" }
