package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fastddl/ctl"
)

// settingFlags are flags for variables of a session or a job.
type settingFlags struct {
	definitions []ctl.SettingFlag
	values      map[string]*string
}

func (s *settingFlags) bind(f *pflag.FlagSet, definitions []ctl.SettingFlag) {
	s.definitions, s.values = definitions, make(map[string]*string)
	for _, d := range definitions {
		s.values[d.Flag] = f.String(d.Flag, "", d.Usage)
	}
}

// given returns the settings of the flags that were given, as empty as they may be.
func (s *settingFlags) given(cmd *cobra.Command) (settings []ctl.Setting) {
	for _, d := range s.definitions {
		if cmd.Flags().Changed(d.Flag) {
			settings = append(settings, ctl.Setting{Name: d.Variable, Value: *s.values[d.Flag]})
		}
	}
	return settings
}
