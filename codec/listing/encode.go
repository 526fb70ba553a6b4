package listing

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// Prefixes are those of the objects that readers find by prefix, sorted. Readers find index
// pages and versions by their keys.
func Prefixes() []string {
	return []string{names.SymbolPrefix, names.ShardPrefix, names.XorbPrefix, names.SnapshotPrefix, names.RefPrefix}
}

// Encode returns the bytes of a listing. The objects must be sorted by key, and each must begin
// with one of the prefixes. Xorbs and their prefix are left out if the listing would exceed
// MaxSize, because no reader of files lists xorbs. A listing that still exceeds MaxSize is an
// error. Encode returns the first error of objects.
func Encode(prefixes []string, objects iter.Seq2[Object, error]) ([]byte, error) {
	var lines []byte
	var xorbs [2]int // start and end of their lines
	for o, err := range objects {
		if err != nil {
			return nil, err
		}
		from := len(lines)
		lines = o.append(lines)
		if strings.HasPrefix(string(o.Key), names.XorbPrefix) {
			if xorbs[1] == 0 {
				xorbs[0] = from
			}
			xorbs[1] = len(lines)
		}
	}
	b, err := seal(prefixes, lines)
	if err == nil && len(b) > MaxSize {
		few := slices.DeleteFunc(slices.Clone(prefixes), func(p string) bool { return p == names.XorbPrefix })
		b, err = seal(few, slices.Concat(lines[:xorbs[0]], lines[xorbs[1]:]))
	}
	if err == nil && len(b) > MaxSize {
		return nil, fmt.Errorf("listing: %d bytes, at most %d are allowed", len(b), MaxSize)
	}
	return b, err
}

// seal puts the first line before the lines of objects, and the checksum behind them.
func seal(prefixes []string, lines []byte) ([]byte, error) {
	prefixes = slices.Sorted(slices.Values(prefixes))
	first, err := json.Marshal(head{Format: 1, Prefixes: prefixes})
	if err != nil {
		return nil, err
	}
	b := slices.Concat(first, []byte{'\n'}, lines)
	sum := page.Sum(b[:len(b)-1])
	return append(hex.AppendEncode(b, sum[:]), '\n'), nil
}
