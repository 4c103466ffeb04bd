package cop

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGroupIndexNumbersKeys: keys have the numbers in which they appear, also when their hashes are equal, when one begins
// with another or is empty, and after a reset.
func TestGroupIndexNumbersKeys(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var x groupIndex
	for range 20 {
		want := make(map[string]int)
		for range 500 {
			key := fmt.Sprintf("%0*d", rnd.IntN(4), rnd.IntN(200))[rnd.IntN(2):]
			n, isNew := x.findHashed(uint64(len(key)%3), []byte(key))
			known, ok := want[key]
			if !ok {
				known = len(want)
				want[key] = known
			}
			require.Equal(t, known, n, "number of %q", key)
			require.Equal(t, !ok, isNew, "%q", key)
		}
		x.reset()
	}
}
