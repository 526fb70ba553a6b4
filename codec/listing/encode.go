package listing

import (
	"bytes"
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

// A Builder encodes a listing. Its objects and parts are added in the order of their keys.
type Builder struct {
	format   int
	prefixes []string
	text     []byte // the first line, and the lines of objects
	objects  int    // offset of the first object
	xorbs    [2]int // start and end of their lines
	parts    int64  // bytes in added parts
	xorbPart int64  // bytes in added parts of xorbs
}

// HasParts reports whether a part was added.
func (b *Builder) HasParts() bool { return b.parts > 0 }

// NewBuilder returns a Builder of a listing with some prefixes. The size in bytes, which may be
// zero, is that of memory to start with.
func NewBuilder(prefixes []string, size int) *Builder { return newBuilder(1, prefixes, size) }

func newBuilder(format int, prefixes []string, size int) *Builder {
	prefixes = slices.Sorted(slices.Values(prefixes))
	first, err := json.Marshal(head{Format: format, Prefixes: prefixes})
	if err != nil {
		panic(err) // strings have an encoding
	}
	b := &Builder{format: format, prefixes: prefixes, text: append(make([]byte, 0, max(size, len(first)+1)), first...)}
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

// AddPart adds a part of another listing.
func (b *Builder) AddPart(p Part) {
	from := len(b.text)
	b.text = p.append(b.text)
	b.noteXorbs(from)
	b.parts += p.Size
	if strings.HasPrefix(p.Folder, names.XorbPrefix) {
		b.xorbPart += p.Size
	}
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

// EncodeParts returns the bytes of a listing whose folders of shards and xorbs are parts. It calls put
// with each part that AddPart did not add, and its lines.
func (b *Builder) EncodeParts(put func(Part, []byte) error) ([]byte, error) {
	b = b.bounded()
	parted := newBuilder(partsFormat, b.prefixes, 0)
	for lines := b.text[b.objects:]; len(lines) > 0; {
		end := bytes.IndexByte(lines, '\n') + 1
		folder := ""
		if !isPart(lines[:end]) {
			key, _, _ := bytes.Cut(lines[:end], []byte{' '})
			folder = folderOf(string(key))
		}
		if folder == "" {
			parted.text = append(parted.text, lines[:end]...)
			lines = lines[end:]
			continue
		}
		for end < len(lines) && bytes.HasPrefix(lines[end:], []byte(folder)) && !isPart(lines[end:]) {
			end += bytes.IndexByte(lines[end:], '\n') + 1
		}
		p := Part{folder, int64(end), checksum(lines[:end])}
		if p.Size > MaxPart {
			return nil, fmt.Errorf("listing: %d bytes for folder %s, at most %d are allowed", p.Size, folder, MaxPart)
		}
		if err := put(p, lines[:end]); err != nil {
			return nil, err
		}
		parted.AddPart(p)
		lines = lines[end:]
	}
	return parted.Encode()
}

// Encode returns the bytes of the listing. Each key begins with one of the prefixes. Xorbs and
// their prefix are left out if the listing would exceed MaxSize, because no reader of files lists
// xorbs. A listing that still exceeds MaxSize is an error.
func (b *Builder) Encode() ([]byte, error) {
	b = b.bounded()
	if n := b.Size(); n > MaxSize {
		return nil, fmt.Errorf("listing: %d bytes, at most %d are allowed", n, MaxSize)
	}
	sum := page.Sum(b.text[:len(b.text)-1])
	return append(hex.AppendEncode(b.text, sum[:]), '\n'), nil
}

// Size returns the size of the listing and its parts in bytes.
func (b *Builder) Size() int64 { return int64(len(b.text)+sumLine) + b.parts }

// bounded returns b, without xorbs and their prefix if its size would exceed MaxSize.
func (b *Builder) bounded() *Builder {
	if b.Size() <= MaxSize || b.xorbs[1] == 0 {
		return b
	}
	few := newBuilder(b.format, slices.DeleteFunc(slices.Clone(b.prefixes), func(p string) bool { return p == names.XorbPrefix }), 0)
	few.text = slices.Concat(few.text, b.text[b.objects:b.xorbs[0]], b.text[b.xorbs[1]:])
	few.parts = b.parts - b.xorbPart
	return few
}
