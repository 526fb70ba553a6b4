package page

import (
	"encoding/binary"
	"math"
)

// fields reads one field after another. After the first wrong field, the others are undefined. A
// decoder therefore checks err once, behind the last field.
type fields struct {
	b     []byte
	at    int
	start int // offset of b in the page
	err   error
}

func (f *fields) fail(at int, format string, args ...any) {
	if f.err == nil {
		f.err = bad(int64(f.start+at), format, args...)
	}
}

// uvarint reads a number. One byte is enough for nearly all of them.
func (f *fields) uvarint(what string) uint64 {
	if f.at < len(f.b) && f.b[f.at] < 0x80 {
		f.at++
		return uint64(f.b[f.at-1])
	}
	return f.longUvarint(what)
}

func (f *fields) longUvarint(what string) uint64 {
	if f.err != nil {
		return 0
	}
	if b := f.b[f.at:]; len(b) > 1 && b[1] < 0x80 && b[1] > 0 {
		f.at += 2
		return uint64(b[0]&0x7f) | uint64(b[1])<<7
	}
	v, n := binary.Uvarint(f.b[f.at:])
	switch {
	case n == 0:
		f.fail(f.at, "%s is cut off", what)
	case n < 0:
		f.fail(f.at, "%s is 2^64 or more", what)
	case f.b[f.at+n-1] == 0:
		f.fail(f.at, "%s is longer than it needs to be", what)
	default:
		f.at += n
		return v
	}
	return 0
}

// limited reads a number that must not be above limit.
func (f *fields) limited(limit uint64, what string) uint64 {
	at := f.at
	v := f.uvarint(what)
	if v > limit {
		return f.overLimit(at, v, limit, what)
	}
	return v
}

func (f *fields) overLimit(at int, v, limit uint64, what string) uint64 {
	f.fail(at, "%s is %d, at most %d are allowed", what, v, limit)
	return 0
}

// int63 reads a number that an int64 holds.
func (f *fields) int63(what string) int64 { return int64(f.limited(math.MaxInt64, what)) }

// svarint reads a zigzag number.
func (f *fields) svarint(what string) int64 {
	v := f.uvarint(what)
	return int64(v>>1) ^ -int64(v&1)
}

// bytes reads n bytes, without a copy.
func (f *fields) bytes(what string, n uint64) []byte {
	if f.err != nil {
		return nil
	}
	if n > uint64(len(f.b)-f.at) {
		f.fail(f.at, "%s of %d bytes where %d are left", what, n, len(f.b)-f.at)
		return nil
	}
	f.at += int(n)
	return f.b[f.at-int(n) : f.at : f.at]
}

// done checks that nothing is left.
func (f *fields) done() error {
	if f.err == nil && f.at != len(f.b) {
		f.fail(f.at, "%d bytes are left of a value", len(f.b)-f.at)
	}
	return f.err
}
