package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// ParseBytes parses a number of bytes with an optional unit.
func ParseBytes(text string) (int64, error) {
	n, err := humanize.ParseBytes(strings.TrimSpace(text))
	if err != nil || n > math.MaxInt64 || strings.Contains(text, ",") {
		return 0, fmt.Errorf("%q is not a number of bytes", text)
	}
	return int64(n), nil
}

// A ByteSize is a whole number of bytes, also with a unit: 1048576, 512MiB, 2GB.
type ByteSize int64

// ParseSize parses a ByteSize.
func ParseSize(text string) (ByteSize, error) {
	n, err := ParseBytes(text)
	if err != nil || strings.Contains(text, ".") {
		return 0, fmt.Errorf("%q is not a size; write it like 512MiB or 2G", text)
	}
	return ByteSize(n), nil
}

// String returns s in the largest unit that divides it.
func (s ByteSize) String() string {
	n, unit := int64(s), "B"
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	return strconv.FormatInt(n, 10) + unit
}

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
