package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseRate reads a number of bytes per second: 125MB, 12.5MB/s, 8MiB.
func ParseRate(text string) (int64, error) {
	n, err := ParseBytes(strings.TrimSuffix(strings.TrimSpace(text), "/s"))
	if err != nil || n < 1 || n > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a rate; write it like 125MB", text)
	}
	return n, nil
}

// A Share is a part of 1, in percent on the command line: 1%, 0.5%.
type Share float64

// ParseShare reads a Share.
func ParseShare(text string) (Share, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || !(0 <= n && n <= 100) {
		return 0, fmt.Errorf("%q is not a share; write it like 1%%", text)
	}
	return Share(n / 100), nil
}

// String is the inverse of ParseShare.
func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'g', -1, 64) + "%" }
