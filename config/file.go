package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Load reads a TOML file over the defaults. Keys that do not exist are an
// error: a misspelt setting must not be silently without effect.
func Load(file string) (Config, error) {
	c := Default()
	md, err := toml.DecodeFile(file, &c)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration %s: %w", file, err)
	}
	// What is inside of [tidb] is looked at by Validate.
	unknown := slices.DeleteFunc(unknownKeys(md), func(name string) bool { return strings.HasPrefix(name, "tidb.") })
	if len(unknown) > 0 {
		return Config{}, fmt.Errorf("read configuration %s: unknown settings: %s", file, strings.Join(unknown, ", "))
	}
	return c, nil
}

// unknownKeys lists the keys of a file that no setting took.
func unknownKeys(md toml.MetaData) []string {
	var names []string
	for _, k := range md.Undecoded() {
		names = append(names, k.String())
	}
	slices.Sort(names)
	return names
}
