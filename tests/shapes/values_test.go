package shapes

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// values makes random literals of a kind.
type values func(r *rand.Rand) string

func oneOf(literals ...string) values {
	return func(r *rand.Rand) string { return pick(r, literals) }
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// chance is true in one of n cases.
func chance(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// orNull adds NULLs, now and then many.
func orNull(r *rand.Rand, v values) values {
	n := pick(r, []int{2, 5, 30})
	return func(r *rand.Rand) string {
		if chance(r, n) {
			return "NULL"
		}
		return v(r)
	}
}

// notNull leaves NULLs out.
func notNull(v values) values {
	return func(r *rand.Rand) string {
		for {
			if literal := v(r); literal != "NULL" {
				return literal
			}
		}
	}
}

// integers are of a width, with its ends.
func integers(bits int, unsigned bool) values {
	return func(r *rand.Rand) string {
		switch r.IntN(6) {
		case 0:
			if unsigned {
				return fmt.Sprint(^uint64(0) >> (64 - bits))
			}
			return fmt.Sprint(int64(1)<<(bits-1) - 1)
		case 1:
			if unsigned {
				return "0"
			}
			return fmt.Sprint(int64(-1) << (bits - 1))
		case 2, 3:
			n := r.Uint64() >> (64 - bits)
			if unsigned {
				return fmt.Sprint(n)
			}
			return fmt.Sprint(int64(n<<(64-bits)) >> (64 - bits))
		}
		if unsigned {
			return fmt.Sprint(r.IntN(100))
		}
		return fmt.Sprint(r.IntN(100) - 50)
	}
}

func floats(r *rand.Rand) string {
	edges := []string{"0", "-0.0", "1e37", "-1e37", "1e-30", "0.1", "-1.5", "16777217"}
	if chance(r, 2) {
		return pick(r, edges)
	}
	return fmt.Sprintf("%g", r.NormFloat64()*1000)
}

// decimals have digits before and after the point.
func decimals(before, after int) values {
	return func(r *rand.Rand) string {
		sign := pick(r, []string{"", "-"})
		digits := func(n int) string {
			if chance(r, 4) {
				return strings.Repeat(pick(r, []string{"0", "9"}), n)
			}
			var b strings.Builder
			for range n {
				b.WriteByte(byte('0' + r.IntN(10)))
			}
			return b.String()
		}
		return sign + "0" + digits(r.IntN(before+1)) + "." + digits(after) + "0"
	}
}

// datetimes have the ends, zeros and days that do not exist, which some modes allow.
func datetimes(from int) values {
	return func(r *rand.Rand) string {
		if chance(r, 4) {
			return pick(r, []string{
				"'0000-00-00'", "'2024-02-30'", "'2024-00-10'", "'1000-01-01'", "'9999-12-31 23:59:59.999999'", "'2024-02-29 23:59:59.5'", "'1969-12-31 23:59:59'",
			})
		}
		return fmt.Sprintf("'%04d-%02d-%02d %02d:%02d:%02d.%06d'", from+r.IntN(60), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e6))
	}
}

// timestamps are far from the hours that clocks repeat or leave out, or they are in them.
func timestamps(repeated bool) values {
	return func(r *rand.Rand) string {
		switch {
		case chance(r, 8):
			return pick(r, []string{"'0000-00-00'", "'1970-01-02 00:00:01'", "'2038-01-18 03:14:07.999999'"})
		case repeated && chance(r, 3):
			return pick(r, []string{"'2024-10-27 00:30:00'", "'2024-10-27 01:30:00'", "'2024-10-27 02:30:00'", "'2024-03-31 01:15:00'", "'2024-11-03 05:30:00'", "'2024-11-03 06:30:00'"})
		}
		// No zone of the test has ever put its clocks back on these days.
		return fmt.Sprintf("'%04d-%02d-%02d %02d:%02d:%02d.%06d'", 1975+r.IntN(60), 1+r.IntN(12), 18+r.IntN(6), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e6))
	}
}

func durations(r *rand.Rand) string {
	if chance(r, 4) {
		return pick(r, []string{"'838:59:59'", "'-838:59:59'", "'00:00:00'", "'-00:00:00.000001'"})
	}
	return fmt.Sprintf("'%s%02d:%02d:%02d.%06d'", pick(r, []string{"", "-"}), r.IntN(100), r.IntN(60), r.IntN(60), r.IntN(1e6))
}

// letters that collations treat in ways of their own: cases, accents, ignored ones,
// contractions, control characters, and of every length.
var letters = []string{
	"a", "A", "b", "B", "z", "ß", "ss", "s", "é", "e", "E", "É", "e\u0301", "ü", "日", "本", "中", "😀", "😁", " ", "  ", "\\0", "\\t", "\u00ad", "\u200b", "ﬀ", "Ａ", "æ", "0", "9", "_", "%", "\u3000", "\u0130", "ı", "\U0010ffff",
}

// texts are strings with up to n letters.
func texts(n int) values {
	return func(r *rand.Rand) string {
		switch r.IntN(12) {
		case 0:
			return "''"
		case 1:
			return pick(r, []string{"' '", "'a'", "'a '", "'A'", "'a  '", "'a\\0'", "'\\0'", "' a'", "'a\\t'", "'1'", "'2024-02-29'", "'12x'"})
		case 2:
			return "'" + strings.Repeat(pick(r, letters), n/2+1) + "'"
		}
		var b strings.Builder
		for range r.IntN(min(n, 12) + 1) {
			b.WriteString(pick(r, letters))
		}
		if chance(r, 4) {
			b.WriteString(strings.Repeat(" ", 1+r.IntN(3)))
		}
		return "'" + b.String() + "'"
	}
}

// octets are binary strings of up to n bytes.
func octets(n int) values {
	return func(r *rand.Rand) string {
		if chance(r, 4) {
			return texts(n / 4)(r)
		}
		var b strings.Builder
		for range r.IntN(n + 1) {
			fmt.Fprintf(&b, "%02x", pick(r, []int{0, 0xff, 0x20, 'a', 'A', 0x80, 0xc3, r.IntN(256)}))
		}
		return "x'" + b.String() + "'"
	}
}

func bits(n int) values {
	return func(r *rand.Rand) string {
		return fmt.Sprintf("b'%b'", pick(r, []uint64{0, 1, ^uint64(0), r.Uint64()})>>(64-n))
	}
}

// documents are JSON values; arrays of one kind of elements are the most.
func documents(r *rand.Rand) string {
	switch r.IntN(16) {
	case 0:
		return pick(r, []string{"'{}'", "'[]'", "'null'", "'5'", "'\"a\"'", "'true'", "'{\"a\": [1, 2, 2]}'", "'[null]'", "'[[1]]'", "'[1.5]'", "'[true]'", "'[-1]'"})
	case 1, 2:
		return fmt.Sprintf(`'{"a": %d, "b": "%s"}'`, r.IntN(9), pick(r, []string{"x", "X ", "日本"}))
	case 3:
		return pick(r, []string{"json_array(date'2024-02-29', date'1999-12-31')", "json_array('a', 'A', 'a ')", "json_array('😀', '')", "json_array(18446744073709551615)"})
	}
	return numbers(r)
}

// numbers are JSON arrays of integers.
func numbers(r *rand.Rand) string {
	elements := make([]string, r.IntN(7))
	for i := range elements {
		elements[i] = fmt.Sprint(r.IntN(12))
	}
	return "'[" + strings.Join(elements, ",") + "]'"
}

// words are JSON arrays of short strings.
func words(r *rand.Rand) string {
	elements := make([]string, r.IntN(5))
	for i := range elements {
		elements[i] = `"` + pick(r, []string{"a", "A", "b ", "", "日本", "😀"}) + `"`
	}
	return "'[" + strings.Join(elements, ",") + "]'"
}
