package stack

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A Room is room on a file system: a number of bytes, or percent of its size.
type Room struct {
	bytes   ui.ByteSize
	percent float64 // if it is not 0
}

// ParseRoom returns a parser of a Room that refuses less than least bytes.
func ParseRoom(least ui.ByteSize) func(text string) (Room, error) {
	return func(text string) (r Room, err error) {
		if digits, ok := strings.CutSuffix(strings.TrimSpace(text), "%"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
			if err != nil || !(0 <= n && n <= 100) {
				return r, fmt.Errorf("%q is not a share; write it like 5%%", text)
			}
			r.percent = n
		} else if r.bytes, err = ui.ParseSize(text); err != nil {
			return r, fmt.Errorf("%w, or 5%%", err)
		}
		if r.percent == 0 && r.bytes < least {
			return r, fmt.Errorf("%s is too little, %s is the least; --cache-dir=off keeps nothing", text, least)
		}
		return r, nil
	}
}

// Limit returns the limit in bytes on a file system of total bytes.
func (r Room) Limit(total int64) int64 {
	if r.percent > 0 {
		return int64(float64(total) * (r.percent / 100))
	}
	return int64(r.bytes)
}

// String is the inverse of the parser.
func (r Room) String() string {
	if r.percent > 0 {
		return strconv.FormatFloat(r.percent, 'g', -1, 64) + "%"
	}
	return r.bytes.String()
}
