package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A ByteSize is a number of bytes as a flag: 1048576, 512MiB, 2G. All units are powers
// of 1024, as users of memory expect.
type ByteSize int64

// units are the endings that a size may have, longest first.
var units = []struct {
	ending string
	bytes  int64
}{
	{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
	{"KB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30}, {"TB", 1 << 40},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
	{"B", 1}, {"", 1},
}

// Set implements pflag.Value.
func (s *ByteSize) Set(text string) error {
	digits, unit := strings.ToUpper(strings.TrimSpace(text)), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(digits, u.ending); ok {
			digits, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a size; write it like 512MiB or 2G", text)
	}
	*s = ByteSize(n * unit)
	return nil
}

// String implements pflag.Value: the largest unit that divides s.
func (s *ByteSize) String() string {
	n, unit := int64(*s), "B"
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	return strconv.FormatInt(n, 10) + unit
}

// Type implements pflag.Value.
func (s *ByteSize) Type() string { return "SIZE" }

// HumanSize returns a number of bytes with 3 digits and a unit that is a power of 1024.
func HumanSize(n int64) string {
	if n < 1024 {
		return Plural(n, "byte")
	}
	size, unit := float64(n), ""
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if size < 999.5 {
			break
		}
		size, unit = size/1024, next
	}
	switch {
	case size < 9.995:
		return fmt.Sprintf("%.2f %s", size, unit)
	case size < 99.95:
		return fmt.Sprintf("%.1f %s", size, unit)
	}
	return fmt.Sprintf("%.0f %s", size, unit)
}
