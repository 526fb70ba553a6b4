package tree

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	iofs "io/fs"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// FuzzTree reads and changes generated trees, page by page. It checks three promises. The
// readers never panic, and they return. In a tree that is listed without an error, keys rise,
// their number equals that of the root, and Lookup finds each one.
//
// The input is a list of pages, each behind its length, the lower ones first. A link names an
// earlier page by the first byte of its hash. A changed byte therefore leads to another page
// instead of to none.
func FuzzTree(f *testing.F) {
	for _, n := range []int{0, 3, 40, 120} {
		s := newStore()
		s.build(f, tiny, plain(n, 50))
		f.Add(s.flat())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := newStore()
		root, ok := s.unflat(in)
		if !ok {
			return
		}
		tree, err := Open(t.Context(), s, page.Root{Page: root})
		if err != nil {
			t.Fatal(err)
		}
		all, err := collect(tree.All(t.Context(), ""))
		checkKind(t, err)
		for i, e := range all {
			if i > 0 && page.ComparePaths(all[i-1].Path, e.Path) >= 0 {
				t.Errorf("%q after %q", e.Path, all[i-1].Path)
			}
			if found, err := tree.Lookup(t.Context(), e.Path); err != nil || !found.Equal(&e) {
				t.Errorf("Lookup(%q) = %+v, %v", e.Path, found, err)
			}
			if e.Type == page.Dir {
				_, err := collect(tree.List(t.Context(), e.Path, ""))
				checkKind(t, err)
			}
		}
		if n, _ := tree.Totals(); err == nil && int64(len(all)) != n {
			t.Errorf("%d entries, the root says %d", len(all), n)
		}
		changed := []page.Change{{New: &page.Entry{Type: page.Dir, Mode: 0o700}}, {Old: &page.Entry{Path: "d00000/file-0000001.bin"}}, {New: &page.Entry{Path: "d00000/new"}}}
		_, err = Update(context.Background(), s, tiny, root, good(changed), s.put)
		checkKind(t, err)
	})
}

func checkKind(t *testing.T, err error) {
	t.Helper()
	for _, kind := range []error{codec.ErrCorrupt, iofs.ErrNotExist, errLost, nil} {
		if errors.Is(err, kind) {
			return
		}
	}
	// A Builder refuses keys that do not rise.
	if !strings.HasPrefix(err.Error(), "pages: ") {
		t.Errorf("error %v is of no kind", err)
	}
}

// flat returns the pages of a store as FuzzTree takes them, in the order they were put.
func (s *store) flat() (b []byte) {
	index := map[page.Hash]byte{}
	for i, h := range s.puts {
		encoded := s.pages[h]
		if p, err := page.Decode(encoded); err == nil && p.Level() > 0 {
			for l := range p.LinksFrom(0) {
				name := l.Page
				name[0] = index[l.Page]
				encoded = bytes.Replace(encoded, l.Page[:], name[:], 1)
			}
		}
		index[h] = byte(i)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(encoded)))
		b = append(b, encoded...)
	}
	return b
}

// unflat is the inverse of flat. It is not ok if one of the pages is none.
func (s *store) unflat(b []byte) (root page.Hash, ok bool) {
	var names []page.Hash
	for len(b) >= 2 {
		n := int(binary.LittleEndian.Uint16(b))
		if n > len(b)-2 {
			return root, false
		}
		encoded := bytes.Clone(b[2 : 2+n])
		b = b[2+n:]
		p, err := page.Decode(encoded)
		if err != nil {
			return root, false
		}
		fixed := encoded
		for l := range p.LinksFrom(0) {
			if i := int(l.Page[0]); i < len(names) {
				fixed = bytes.Replace(fixed, l.Page[:], names[i][:], 1)
			}
		}
		root = page.Sum(fixed)
		names = append(names, root)
		s.pages[root] = fixed
	}
	return root, len(names) > 0
}
