package listing

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// Prefixes are those of the objects that readers find by prefix, sorted. Readers find index
// pages and versions by their keys.
func Prefixes() []string {
	return []string{names.SymbolPrefix, names.ShardPrefix, names.XorbPrefix, names.SnapshotPrefix, names.RefPrefix}
}

// Encode returns the bytes of a listing. The objects must be sorted by key, and each must begin
// with one of the prefixes. It returns the first error of objects, and those of Builder.Encode.
func Encode(prefixes []string, objects iter.Seq2[Object, error]) ([]byte, error) {
	var b Builder
	for o, err := range objects {
		if err != nil {
			return nil, err
		}
		b.Add(o)
	}
	return b.Encode(prefixes)
}

// A Builder encodes a listing. Its objects are added in the order of their keys.
type Builder struct {
	lines []byte
	xorbs [2]int // start and end of their lines
}

// Add adds an object.
func (b *Builder) Add(o Object) {
	from := len(b.lines)
	b.lines = o.append(b.lines)
	b.noteXorbs(from)
}

// Lines returns the encoding of the objects that were added.
func (b *Builder) Lines() []byte { return b.lines }

// AddLines adds objects of another Builder, the result of its Lines.
func (b *Builder) AddLines(lines []byte) {
	from := len(b.lines)
	b.lines = append(b.lines, lines...)
	b.noteXorbs(from)
}

func (b *Builder) noteXorbs(from int) {
	if bytes.HasPrefix(b.lines[from:], []byte(names.XorbPrefix)) {
		if b.xorbs[1] == 0 {
			b.xorbs[0] = from
		}
		b.xorbs[1] = len(b.lines)
	}
}

// Encode returns the bytes of the listing. Each key begins with one of the prefixes. Xorbs and
// their prefix are left out if the listing would exceed MaxSize, because no reader of files lists
// xorbs. A listing that still exceeds MaxSize is an error.
func (b *Builder) Encode(prefixes []string) ([]byte, error) {
	all, err := seal(prefixes, b.lines)
	if err == nil && len(all) > MaxSize {
		few := slices.DeleteFunc(slices.Clone(prefixes), func(p string) bool { return p == names.XorbPrefix })
		all, err = seal(few, slices.Concat(b.lines[:b.xorbs[0]], b.lines[b.xorbs[1]:]))
	}
	if err == nil && len(all) > MaxSize {
		return nil, fmt.Errorf("listing: %d bytes, at most %d are allowed", len(all), MaxSize)
	}
	return all, err
}

// seal puts the first line before the lines of objects, and the checksum behind them.
func seal(prefixes []string, lines []byte) ([]byte, error) {
	prefixes = slices.Sorted(slices.Values(prefixes))
	first, err := json.Marshal(head{Format: 1, Prefixes: prefixes})
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(first)+1+len(lines)+sumLine)
	b = append(append(append(b, first...), '\n'), lines...)
	sum := page.Sum(b[:len(b)-1])
	return append(hex.AppendEncode(b, sum[:]), '\n'), nil
}
