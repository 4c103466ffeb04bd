package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Version{
		"v8.5.3": {8, 5}, "8.5.3": {8, 5}, "v7.5.0-alpha-12-gabcdef": {7, 5}, "8.0.11-TiDB-v8.5.4": {8, 5}, "5.7.25-TiDB-v6.5.11": {6, 5},
		"8.0.11-TiDB-v8.4.0-this-is-a-placeholder": {8, 4},
	} {
		v, ok := Parse(text)
		require.True(t, ok, text)
		require.Equal(t, want, v, text)
	}
	for _, text := range []string{"", "None", "nightly", "v8", "8.0.11-TiDB-None"} {
		_, ok := Parse(text)
		require.False(t, ok, text)
	}
}
