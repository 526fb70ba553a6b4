package page

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeebo/blake3"

	"github.com/xetfs/xetfs/codec"
)

// workedForm is the identity form of the worked example, written out.
const workedForm = "58455446534944010000100005000000" + "05000000000000000500000000000000" +
	"00f15365000000000000000001000000" + "60000000000000000000000000000000" +
	"00000401ed030000" + "02" + "0061" + "0401ed0304" + "02" + "02" + "2d7a" + "05" + "00a4037800" +
	"00" + "08" + "610000622e747874" + "2a" + "08a4030280cab5ee0105" +
	"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" +
	"03" + "04" + "6c696e6b" + "0a" + "02ff030505622e747874" +
	"00000000"

// workedName is the identity of the worked example.
const workedName = "eea456e58ebbb38e1a4ac786c2896e7c3ed688c57c608c7c3518e0a836a79e57"

// The identity of the worked example is the hash of its form, bit by bit.
func TestWorkedIdentity(t *testing.T) {
	raw, err := hex.DecodeString(workedForm)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Decode(workedPage(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Identity(), Identity(blake3.Sum256(raw)); got != want {
		t.Errorf("identity = %v, want %v", got, want)
	}
	if got := p.Identity().String(); got != workedName {
		t.Errorf("identity = %v, want %v", got, workedName)
	}
	if id, err := ParseIdentity(workedName); err != nil || id.String() != workedName || id.IsZero() {
		t.Errorf("ParseIdentity = %v, %v", id, err)
	}
}

// moved returns entries with other places of their files.
func moved(t *rapid.T, entries []Entry) []Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		id := &entries[i].ID
		if id.File.IsZero() {
			continue
		}
		*id = codec.FileID{File: id.File}
		if rapid.IntRange(0, 3).Draw(t, "placed") > 0 {
			id.Shard = drawHash(t)
			id.Block = 48 * rapid.Int64Range(0, math.MaxInt64/48).Draw(t, "block")
		}
	}
	return entries
}

// pagesOf returns the level and the last key of each page of a tree.
func (s *store) pagesOf(t fataler, root Hash) []string {
	p, err := s.Page(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	found := []string{fmt.Sprint(p.Level(), p.Last(), p.Identity())}
	row := 0
	for l := range p.LinksFrom(0) {
		child, err := s.Page(context.Background(), l.Page)
		if err == nil {
			err = p.ProveChild(row, child)
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, s.pagesOf(t, l.Page)...)
		row++
	}
	return found
}

// Trees that differ in places alone have equal identities, page by page, and no changes.
func TestIdentityOfPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := sorted(drawTree(t))
		s := newStore()
		a, b := s.build(t, tiny, entries), s.build(t, tiny, moved(t, entries))
		if a.Identity != b.Identity {
			t.Fatalf("identities %v and %v", a.Identity, b.Identity)
		}
		if !slices.Equal(s.pagesOf(t, a.Page), s.pagesOf(t, b.Page)) {
			t.Fatal("other pages")
		}
		s.reads = 0
		if got := s.diff(t, a.root(), b.root()); len(got) > 0 || s.reads > 0 {
			t.Fatalf("%d changes, %d reads", len(got), s.reads)
		}
		if got := s.diff(t, Root{Page: a.Page, Identity: Identity{1}}, b.root()); len(got) > 0 {
			t.Fatalf("%d changes", len(got)) // entries are compared, too
		}
	})
}

// Each single change of an entry changes the identity.
func TestIdentityOfChanges(t *testing.T) {
	sum := [32]byte{1}
	changes := map[string]func(e *Entry) bool{
		"name":       func(e *Entry) bool { e.Path += "\xff"; return e.Path != "\xff" },
		"byte":       func(e *Entry) bool { e.ID.File[31] ^= 1; return len(e.Inline) == 0 && e.Size > 0 },
		"inline":     func(e *Entry) bool { e.Inline = slices.Clone(e.Inline); return flip(e.Inline) },
		"size":       func(e *Entry) bool { e.Size++; return len(e.Inline) == 0 && e.Size > 1 },
		"mode":       func(e *Entry) bool { e.Mode ^= 1; return true },
		"second":     func(e *Entry) bool { e.ModTime = e.ModTime.Add(-time.Second); return e.ModTime.Unix() > -maxTime },
		"nanosecond": func(e *Entry) bool { e.ModTime = e.ModTime.Add(time.Nanosecond); return true },
		"link":       func(e *Entry) bool { e.Target += "x"; return e.Type == Symlink },
		"owner":      func(e *Entry) bool { e.Owner = &Owner{7, 7 + uint32(e.Mode)}; return true },
		"SHA-256":    func(e *Entry) bool { had := e.SHA256; e.SHA256 = &sum; return e.Type == File && had == nil },
		"attribute":  func(e *Entry) bool { e.Xattrs = map[string]string{"user.new": "x"}; return true },
	}
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		before := newStore().build(t, tiny, sorted(tree))
		for path, e := range tree {
			for what, change := range changes {
				changed := e
				if !change(&changed) || changed.Equal(&e) {
					continue
				}
				after := make(map[string]Entry, len(tree))
				for p, other := range tree {
					after[p] = other
				}
				delete(after, path)
				if _, taken := after[changed.Path]; taken {
					continue
				}
				after[changed.Path] = changed
				if got := newStore().build(t, tiny, sorted(after)); got.Identity == before.Identity {
					t.Fatalf("%s of %q changed, and the identity is the same", what, path)
				}
			}
			break // one entry of each tree; the map has a random order
		}
	})
}

func flip(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	b[0] ^= 1
	return true
}

// The longest pages are below MaxSize, with the shortest rows and the longest places.
func TestLongestPages(t *testing.T) {
	sizes := Sizes{Min: MaxPage, Max: MaxPage, Bits: 10, Restart: 1024}
	if err := sizes.Check(); err != nil {
		t.Fatal(err)
	}
	place := func(i int) codec.FileID {
		return codec.FileID{File: codec.Hash{1}, Shard: codec.Hash{1, byte(i), byte(i >> 8), byte(i >> 16)}, Block: math.MaxInt64 / 48 * 48}
	}
	long := map[string]string{}
	for i := range 3 {
		long[fmt.Sprint(i)] = strings.Repeat("x", maxXattr)
	}
	long["more"] = strings.Repeat("x", maxXattr-2048)
	for _, full := range []int{0, 1} {
		longest, n := 0, 0
		level := NewLevel(sizes, 0, func(l Link, page []byte) error {
			longest = max(longest, len(page))
			n++
			if p, err := DecodeAs(l.Page, page); err != nil || p.Identity() != l.Identity {
				t.Errorf("a page of %d bytes: %v", len(page), err)
			}
			return nil
		})
		for i := 0; n == 0; i++ {
			name := fmt.Sprintf("%c%c", 'a'+i/200, 1+i%200) // a byte of key in most rows
			e := Entry{Path: strings.ReplaceAll(name, "/", "~"), Size: 1, ID: place(i), ModTime: time.Unix(0, 0)}
			if full == 1 && level.draft.identitySize() > MaxPage-60 {
				e.Xattrs = long
			}
			if strings.Contains(name, "/") {
				continue
			}
			if err := level.AddEntry(&e); err != nil {
				t.Fatal(err)
			}
		}
		if longest > MaxSize || longest < MaxSize/2 {
			t.Errorf("the longest page has %d bytes", longest)
		}
	}
}

// A page proves a child by identity: its places may be others, its entries may not.
func TestProveChild(t *testing.T) {
	s := newStore()
	entries := plainTree(200)
	parent, err := s.Page(t.Context(), s.build(t, tiny, entries).Page)
	if err != nil {
		t.Fatal(err)
	}
	for parent.Level() > 1 {
		if parent, err = s.Page(t.Context(), parent.Child(0)); err != nil {
			t.Fatal(err)
		}
	}
	child, err := s.Page(t.Context(), parent.Child(0))
	if err != nil {
		t.Fatal(err)
	}
	// relink returns parent with a first link to a page of changed entries.
	relink := func(change func(e *Entry)) (*Page, *Page) {
		var link Link
		var page []byte
		leaf := NewLevel(Sizes{Min: MaxPage, Max: MaxPage, Bits: 10, Restart: tiny.Restart}, 0, func(l Link, b []byte) error {
			link, page = l, b
			return nil
		})
		for e := range child.EntriesFrom(0) {
			if e.Type == File {
				change(&e)
			}
			if err := leaf.AddEntry(&e); err != nil {
				t.Fatal(err)
			}
		}
		if err := leaf.End(); err != nil {
			t.Fatal(err)
		}
		was, _ := parent.Link(0)
		link.Identity = was.Identity // the parent must keep its own
		links := slices.Collect(parent.LinksFrom(0))
		links[0] = link
		p, err := Decode(page)
		if err != nil {
			t.Fatal(err)
		}
		return linkPage(t, parent.Level(), links...), p
	}
	lying, other := relink(func(e *Entry) { e.ID.Shard = codec.Hash{9} })
	if err := lying.ProveChild(0, other); err != nil {
		t.Errorf("other places: %v", err)
	}
	if bytes.Equal(other.Encoded(), child.Encoded()) {
		t.Error("the page is the same")
	}
	lying, other = relink(func(e *Entry) { e.ID.File = codec.Hash{9} })
	if err := lying.CheckChild(0, other); err != nil {
		t.Errorf("other files, by storage hash: %v", err)
	}
	if err := lying.ProveChild(0, other); err == nil || !strings.Contains(err.Error(), "its identity is") {
		t.Errorf("other files: %v", err)
	}
}
