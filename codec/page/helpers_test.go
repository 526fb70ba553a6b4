package page

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
)

// tiny makes trees of several levels from a few hundred entries.
var tiny = Sizes{Min: 256, Max: 768, Bits: 2, Restart: 4}

// A store is pages in memory. It counts how often it is asked.
type store struct {
	pages map[Hash][]byte
	reads int
}

func newStore() *store { return &store{pages: map[Hash][]byte{}} }

func (s *store) put(h Hash, b []byte) error {
	s.pages[h] = b
	return nil
}

func (s *store) Page(_ context.Context, h Hash) (*Page, error) {
	s.reads++
	b, ok := s.pages[h]
	if !ok {
		return nil, fmt.Errorf("page %v: not there", h)
	}
	return DecodeAs(h, b)
}

// build puts a tree into s and returns the link to its root.
func (s *store) build(t fataler, sizes Sizes, entries []Entry) Link {
	t.Helper()
	b := NewBuilder(sizes, s.put)
	for _, e := range entries {
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	root, err := b.Close()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// root returns the tree below the page of a link.
func (l Link) root() Root { return Root{Page: l.Page, Identity: l.Identity} }

// list returns everything below a page.
func (s *store) list(t fataler, h Hash) []Entry {
	t.Helper()
	p, err := s.Page(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	if p.Level() == 0 {
		return slices.Collect(p.EntriesFrom(0))
	}
	var all []Entry
	row := 0
	for l := range p.LinksFrom(0) {
		child, err := s.Page(context.Background(), l.Page)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.CheckChild(row, child); err != nil {
			t.Fatal(err)
		}
		all = append(all, s.list(t, l.Page)...)
		row++
	}
	return all
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

// sorted returns entries in the order of their keys.
func sorted(tree map[string]Entry) []Entry {
	return slices.SortedFunc(maps.Values(tree), func(a, b Entry) int { return ComparePaths(a.Path, b.Path) })
}

func equalEntries(a, b []Entry) bool {
	return slices.EqualFunc(a, b, func(a, b Entry) bool { return a.Equal(&b) })
}

// names are those that make an order hard.
var hardNames = []string{"a", "a-b", "a.b", "a-", "b", "\x01", "-", ".x", "0", "\xff", "é", "a\n", "...", "A"}

func drawPath(t *rapid.T) string {
	path := ""
	for range rapid.IntRange(0, 4).Draw(t, "depth") {
		name := rapid.SampledFrom(hardNames).Draw(t, "name")
		if path != "" {
			name = path + "/" + name
		}
		path = name
	}
	return path
}

func drawHash(t *rapid.T) codec.Hash {
	return codec.Hash{rapid.ByteRange(1, 5).Draw(t, "hash"), 7}
}

func drawEntry(t *rapid.T, path string) Entry {
	e := Entry{
		Path:    path,
		Mode:    uint32(rapid.IntRange(0, maxMode).Draw(t, "mode")),
		ModTime: time.Unix(rapid.Int64Range(-maxTime, maxTime).Draw(t, "seconds"), 0).UTC(),
	}
	if rapid.Bool().Draw(t, "nanos") {
		e.ModTime = time.Unix(1700000000, rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	}
	if rapid.IntRange(0, 9).Draw(t, "owned") == 0 {
		e.Owner = &Owner{rapid.Uint32().Draw(t, "uid"), rapid.Uint32().Draw(t, "gid")}
	}
	if rapid.IntRange(0, 9).Draw(t, "xattrs") == 0 {
		e.Xattrs = map[string]string{"user.b": "", "user.a": rapid.String().Draw(t, "xattr")}
	}
	e.Type = rapid.SampledFrom([]Type{File, File, Dir, Symlink}).Draw(t, "type")
	switch {
	case path == "":
		e.Type = Dir
	case e.Type == Symlink:
		e.Target = rapid.StringMatching(`[^\x00]{1,20}`).Draw(t, "target")
	case e.Type == File:
		drawContent(t, &e)
	}
	return e
}

func drawContent(t *rapid.T, e *Entry) {
	switch rapid.IntRange(0, 3).Draw(t, "content") {
	case 0:
	case 1:
		e.Inline = rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "inline")
		e.Size = int64(len(e.Inline))
	case 2:
		e.ID.File, e.Size = drawHash(t), rapid.Int64Range(1, 1<<40).Draw(t, "size")
	case 3:
		e.ID = codec.FileID{File: drawHash(t), Shard: drawHash(t), Block: 48 * rapid.Int64Range(0, 1<<30).Draw(t, "block")}
		e.Size = rapid.Int64Range(1, 1<<40).Draw(t, "size")
	}
	if rapid.Bool().Draw(t, "sha") {
		sum := [32]byte(drawHash(t))
		e.SHA256 = &sum
	}
}

func drawTree(t *rapid.T) map[string]Entry {
	tree := map[string]Entry{"": drawEntry(t, "")}
	for range rapid.IntRange(0, 60).Draw(t, "entries") {
		path := drawPath(t)
		tree[path] = drawEntry(t, path)
	}
	return tree
}

// plainTree is n files in folders of 100, all alike, sorted by key.
func plainTree(n int) []Entry {
	then := time.Unix(1700000000, 0).UTC()
	entries := []Entry{{Path: "", Type: Dir, Mode: 0o755, ModTime: then}}
	for i := 0; i < n; i += 100 {
		entries = append(entries, Entry{Path: fmt.Sprintf("d%05d", i/100), Type: Dir, Mode: 0o755, ModTime: then})
	}
	for i := range n {
		var h codec.Hash
		binary.LittleEndian.PutUint64(h[:], uint64(i)*0x9e3779b97f4a7c15+1)
		entries = append(entries, Entry{
			Path: fmt.Sprintf("d%05d/file-%02d.bin", i/100, i%100), Mode: 0o644, Size: int64(i + 1), ModTime: then,
			ID: codec.FileID{File: h, Shard: counting(byte(i / 10_000)), Block: int64(i%10_000) * 192},
		})
	}
	return entries
}

var _ fataler = (testing.TB)(nil)
