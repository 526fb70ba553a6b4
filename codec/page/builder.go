package page

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Sizes say where pages end. They are a setting of a catalog: trees share pages if their
// Sizes are the same. Lengths are those of identity forms, so that no page end depends on the
// places of files.
type Sizes struct {
	Min     int // bytes that an identity form has at least, unless it is the last one of its level
	Max     int // bytes of the identity form at which a page ends, whatever its keys are
	Bits    int // a page ends at one key in 2^Bits
	Restart int // rows from one restart point to the next
}

// DefaultSizes are those of a new catalog. They make pages of about 129 KB.
func DefaultSizes() Sizes { return Sizes{Min: 64 << 10, Max: 512 << 10, Bits: 10, Restart: 16} }

// MaxPage is the largest Sizes.Max, a quarter of MaxSize. No page then passes MaxSize, whatever
// the places of its files are:
//
//   - A leaf row of a file with a hash takes at least 40 bytes of the identity form: three
//     lengths, a byte of its key, and a value of 36 bytes (flags, mode, time, size, hash).
//   - Its place takes at most 45 bytes more: 32 in the shard table, 3 of s (at most MaxSize/32
//     shards), 9 of r (below 2^58), 1 of the length of the value. Other rows take none.
//   - A link row takes at least 38 bytes (three lengths, a byte of its key, a value of 34), and
//     its storage hash and length at most 32 + 3 + 1 = 36 more.
//   - Before its last row, an identity form has less than Max bytes. The page therefore has less
//     than Max * (1 + 45/40), which is 1,114,112 bytes.
//   - The last row takes at most maxRow + 11 bytes (three lengths, a restart point), and 32 in
//     the shard table. The sum, 1,376,299 bytes, is below MaxSize.
const MaxPage = MaxSize / 4

// Check returns an error if pages could be too long, or if the hash has too few bits for all
// levels.
func (s Sizes) Check() error {
	switch {
	case s.Min < headerSize || s.Min > s.Max || s.Max > MaxPage:
		return fmt.Errorf("page sizes: pages of %d to %d bytes, %d to %d are allowed", s.Min, s.Max, headerSize, MaxPage)
	case s.Bits < 1 || s.Bits > 10:
		return fmt.Errorf("page sizes: %d bits, 1 to 10 are allowed", s.Bits)
	case s.Restart < 1 || s.Restart > 1024:
		return fmt.Errorf("page sizes: restart interval %d, 1 to 1024 are allowed", s.Restart)
	}
	return nil
}

// ends reports whether a page of this level ends behind key, if its identity form has size bytes
// so far. Each level uses other bits of the hash. The last key of a page is a key one level up,
// where the same bits would end every page.
func (s Sizes) ends(level int, key []byte, size int) bool {
	if size < s.Min {
		return false
	}
	bits := xxhash.Sum64(key) >> (s.Bits * level)
	return size >= s.Max || bits&(1<<s.Bits-1) == 0
}

// A Builder makes the pages of a tree from its sorted entries. Equal entries make equal pages.
// A Builder holds one page per level in memory, whatever the size of the tree.
//
// A tree has an entry for each of its directories, including the root (""). The caller must add
// them.
type Builder struct {
	sizes  Sizes
	put    func(Hash, []byte) error
	levels []*Level
	err    error
}

// NewBuilder returns a Builder that hands every page to put, pages below before the
// pages that link to them, the root last. Put may keep the bytes. Unfit sizes are the
// error of the first Add.
func NewBuilder(s Sizes, put func(Hash, []byte) error) *Builder {
	return &Builder{sizes: s, put: put, err: s.Check()}
}

// Add adds an entry, whose key (Key) must be above all before. After an error,
// also of put, all further calls return the same error.
func (b *Builder) Add(e Entry) error {
	if b.err != nil {
		return b.err
	}
	if len(b.levels) == 0 {
		b.addLevel()
	}
	b.err = b.levels[0].AddEntry(&e)
	return b.err
}

// addLevel adds a level above the others. A page that it finishes is a row of the next.
func (b *Builder) addLevel() {
	n := len(b.levels)
	b.levels = append(b.levels, NewLevel(b.sizes, n, func(l Link, page []byte) error {
		if err := b.put(l.Page, page); err != nil {
			return err
		}
		return b.addLink(n+1, l)
	}))
}

func (b *Builder) addLink(level int, l Link) error {
	if level > MaxLevel {
		// The root of six levels has none above.
		if b.levels[MaxLevel].pages > 1 {
			return fmt.Errorf("pages: a tree of more than %d levels", MaxLevel+1)
		}
		return nil
	}
	if level == len(b.levels) {
		b.addLevel()
	}
	return b.levels[level].AddLink(l)
}

// Close finishes the tree and returns the link to its root. A tree without entries has
// one page without rows.
func (b *Builder) Close() (root Link, err error) {
	if b.err != nil {
		return Link{}, b.err
	}
	b.err = errors.New("pages: the tree is closed")
	if len(b.levels) == 0 {
		d := &draft{restart: b.sizes.Restart}
		page := d.encode()
		root = Link{Page: Sum(page), Identity: d.identity(), Size: len(page)}
		return root, b.put(root.Page, page)
	}
	for i := 0; ; i++ {
		l := b.levels[i]
		if err := l.End(); err != nil {
			b.err = err
			return Link{}, err
		}
		if l.pages == 1 {
			return l.last, nil
		}
	}
}
