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
	b := NewBuilder(prefixes, 0)
	for o, err := range objects {
		if err != nil {
			return nil, err
		}
		b.Add(o)
	}
	return b.Encode()
}

// A Builder encodes a listing. Its objects are added in the order of their keys.
type Builder struct {
	prefixes []string
	text     []byte // the first line, and the lines of objects
	objects  int    // offset of the first object
	xorbs    [2]int // start and end of their lines
}

// NewBuilder returns a Builder of a listing with some prefixes. The size in bytes, which may be
// zero, is that of memory to start with.
func NewBuilder(prefixes []string, size int) *Builder {
	prefixes = slices.Sorted(slices.Values(prefixes))
	first, err := json.Marshal(head{Format: 1, Prefixes: prefixes})
	if err != nil {
		panic(err) // strings have an encoding
	}
	b := &Builder{prefixes: prefixes, text: append(make([]byte, 0, max(size, len(first)+1)), first...)}
	b.text = append(b.text, '\n')
	b.objects = len(b.text)
	return b
}

// Add adds an object.
func (b *Builder) Add(o Object) {
	from := len(b.text)
	b.text = o.append(b.text)
	b.noteXorbs(from)
}

// AddLines adds objects of a Listing, the result of its Lines.
func (b *Builder) AddLines(lines []byte) {
	from := len(b.text)
	b.text = append(b.text, lines...)
	b.noteXorbs(from)
}

func (b *Builder) noteXorbs(from int) {
	if bytes.HasPrefix(b.text[from:], []byte(names.XorbPrefix)) {
		if b.xorbs[1] == 0 {
			b.xorbs[0] = from
		}
		b.xorbs[1] = len(b.text)
	}
}

// Encode returns the bytes of the listing. Each key begins with one of the prefixes. Xorbs and
// their prefix are left out if the listing would exceed MaxSize, because no reader of files lists
// xorbs. A listing that still exceeds MaxSize is an error.
func (b *Builder) Encode() ([]byte, error) {
	if len(b.text)+sumLine > MaxSize && b.xorbs[1] > 0 {
		few := NewBuilder(slices.DeleteFunc(slices.Clone(b.prefixes), func(p string) bool { return p == names.XorbPrefix }), 0)
		few.text = slices.Concat(few.text, b.text[b.objects:b.xorbs[0]], b.text[b.xorbs[1]:])
		b = few
	}
	if n := len(b.text) + sumLine; n > MaxSize {
		return nil, fmt.Errorf("listing: %d bytes, at most %d are allowed", n, MaxSize)
	}
	sum := page.Sum(b.text[:len(b.text)-1])
	return append(hex.AppendEncode(b.text, sum[:]), '\n'), nil
}
