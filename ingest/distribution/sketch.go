package distribution

import (
	"math"
	"math/bits"
	"slices"
)

// sketchBits is the number of bits of a hash that choose a register: the error of the count is 1.04 / sqrt(2^14), 0.8%.
const sketchBits = 14

// Sketch counts different values by their hashes (HyperLogLog, with the estimator of Ertl 2017, which has no bias
// where few registers are set).
type Sketch struct {
	Registers []uint8 `json:"r"`
}

// NewSketch returns a sketch of no values.
func NewSketch() *Sketch { return &Sketch{Registers: make([]uint8, 1<<sketchBits)} }

// Add adds a value by its hash.
func (s *Sketch) Add(hash uint64) {
	r := &s.Registers[hash>>(64-sketchBits)]
	if rank := uint8(bits.LeadingZeros64(hash<<sketchBits|1<<(sketchBits-1))) + 1; rank > *r {
		*r = rank
	}
}

// Valid says that the sketch is one of ours.
func (s *Sketch) Valid() bool {
	return len(s.Registers) == 1<<sketchBits && slices.Max(s.Registers) <= 64-sketchBits+1
}

// merge adds the values of o to s and returns it; nil if one of them is.
func (s *Sketch) merge(o *Sketch) *Sketch {
	if s == nil || o == nil {
		return nil
	}
	for i, r := range o.Registers {
		s.Registers[i] = max(s.Registers[i], r)
	}
	return s
}

func (s *Sketch) clone() *Sketch {
	return &Sketch{Registers: slices.Clone(s.Registers)}
}

// Count returns about how many values were added.
func (s *Sketch) Count() int64 {
	const m, q = 1 << sketchBits, 64 - sketchBits
	var of [q + 2]float64 // registers by what they hold
	for _, r := range s.Registers {
		of[r]++
	}
	if of[0] == m {
		return 0
	}
	z := m * tau(1-of[q+1]/m)
	for k := q; k >= 1; k-- {
		z = (z + of[k]) / 2
	}
	z += m * sigma(of[0]/m)
	return int64(math.Round(m * m / (2 * math.Ln2) / z))
}

func sigma(x float64) float64 {
	y, z := 1.0, x
	for before := math.NaN(); z != before; y *= 2 {
		x *= x
		before = z
		z += x * y
	}
	return z
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := math.NaN(); z != before; {
		x = math.Sqrt(x)
		before = z
		y /= 2
		z -= (1 - x) * (1 - x) * y
	}
	return z / 3
}
