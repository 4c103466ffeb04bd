package simulation

// choice makes the choices of one event from the event's number.
type choice uint64

func (c *choice) next() uint64 { // splitmix64
	*c += 0x9e3779b97f4a7c15
	z := uint64(*c)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1.
func (c *choice) below(n int) int { return int(c.next() >> 33 % uint64(n)) }

// oneIn is true once in n times.
func (c *choice) oneIn(n int) bool { return c.below(n) == 0 }
