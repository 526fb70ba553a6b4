package tree

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// tiny makes trees of several levels from a few hundred entries.
var tiny = page.Sizes{Min: 256, Max: 768, Bits: 2, Restart: 4}

var errLost = errors.New("not there")

// A store is pages in memory. It counts how often it is asked.
type store struct {
	mu     sync.Mutex
	pages  map[page.Hash][]byte
	reads  map[page.Hash]int
	puts   []page.Hash
	before func(ctx context.Context, h page.Hash) error // of each read; nil: nothing
}

func newStore() *store {
	return &store{pages: map[page.Hash][]byte{}, reads: map[page.Hash]int{}}
}

func (s *store) put(h page.Hash, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[h] = b
	s.puts = append(s.puts, h)
	return nil
}

// Page implements page.Getter.
func (s *store) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	if s.before != nil {
		if err := s.before(ctx, h); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.reads[h]++
	b, ok := s.pages[h]
	s.mu.Unlock()
	if !ok {
		return nil, errLost
	}
	return page.DecodeAs(h, b)
}

// forget forgets what was read and put so far.
func (s *store) forget() {
	clear(s.reads)
	s.puts = nil
}

// total returns how often pages were read.
func (s *store) total() (n int) {
	for _, k := range s.reads {
		n += k
	}
	return n
}

// A decoded is a store whose pages are decoded already, as in a warm cache.
type decoded map[page.Hash]*page.Page

func (s *store) decoded(t testing.TB) decoded {
	d := decoded{}
	for h, b := range s.pages {
		p, err := page.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		d[h] = p
	}
	return d
}

// Page implements page.Getter.
func (d decoded) Page(_ context.Context, h page.Hash) (*page.Page, error) {
	if p, ok := d[h]; ok {
		return p, nil
	}
	return nil, errLost
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

// build puts a tree into s.
func (s *store) build(t fataler, sizes page.Sizes, entries []page.Entry) page.Link {
	t.Helper()
	root, err := Build(context.Background(), sizes, good(entries), s.put)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// open opens a tree of s.
func (s *store) open(t fataler, root page.Hash) *Tree {
	t.Helper()
	tree, err := Open(context.Background(), s, page.Root{Page: root})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// levels returns how many levels a tree has.
func (s *store) levels(t fataler, root page.Hash) int {
	t.Helper()
	p, err := page.Decode(s.pages[root])
	if err != nil {
		t.Fatal(err)
	}
	return p.Level() + 1
}

// good yields what cannot fail.
func good[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// collect returns what is yielded before the first error, and that.
func collect[T any](all iter.Seq2[T, error]) (list []T, err error) {
	for e, err := range all {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

func paths(entries []page.Entry) string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Path)
	}
	return strings.Join(names, " ")
}

func equalEntries(a, b []page.Entry) bool {
	return slices.EqualFunc(a, b, func(a, b page.Entry) bool { return a.Equal(&b) })
}

// A model is a tree as a map: what must be found is plain to see.
type model map[string]page.Entry

func (m model) sorted() []page.Entry {
	return slices.SortedFunc(maps.Values(m), func(a, b page.Entry) int { return page.ComparePaths(a.Path, b.Path) })
}

// list returns what is directly in a directory, by name.
func (m model) list(dir, after string) (in []page.Entry) {
	for path, e := range m {
		parent, name := split(path)
		if path != "" && parent == dir && name > after {
			in = append(in, e)
		}
	}
	slices.SortFunc(in, func(a, b page.Entry) int { return strings.Compare(a.Path, b.Path) })
	return in
}

// all returns an entry and what is below it, by key.
func (m model) all(dir string) (in []page.Entry) {
	for _, e := range m.sorted() {
		if dir == "" || e.Path == dir || strings.HasPrefix(e.Path, dir+"/") {
			in = append(in, e)
		}
	}
	return in
}

func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// hardNames are those that make an order hard.
var hardNames = []string{"a", "a-b", "a.b", "a-", "b", "\x01", "-", ".x", "0", "\xff", "é", "a\n", "...", "A", "\xff\xff"}

func drawPath(t *rapid.T) string {
	var names []string
	for range rapid.IntRange(1, 4).Draw(t, "depth") {
		names = append(names, rapid.SampledFrom(hardNames).Draw(t, "name"))
	}
	return strings.Join(names, "/")
}

// put puts an entry into the model, and directories above it. A directory stays one.
func (m model) put(t *rapid.T, path string) {
	if m[path].Type != page.Dir {
		m[path] = drawEntry(t, path)
	}
	for path != "" {
		path, _ = split(path)
		m[path] = page.Entry{Path: path, Type: page.Dir, Mode: 0o755, ModTime: then}
	}
}

var then = time.Unix(1700000000, 0).UTC()

func drawEntry(t *rapid.T, path string) page.Entry {
	e := page.Entry{Path: path, Mode: uint32(rapid.IntRange(0, 0o777).Draw(t, "mode")), ModTime: then}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		e.Type = page.Dir
	case 1:
		e.Type, e.Target = page.Symlink, "somewhere"
	case 2:
		e.Inline = rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "inline")
		e.Size = int64(len(e.Inline))
	case 3:
		e.Size = rapid.Int64Range(1, 1<<40).Draw(t, "size")
		e.ID = codec.FileID{File: codec.Hash{1}, Shard: codec.Hash{rapid.ByteRange(1, 9).Draw(t, "shard")}}
	}
	return e
}

func drawModel(t *rapid.T) model {
	m := model{"": {Type: page.Dir, ModTime: then}}
	for range rapid.IntRange(0, 80).Draw(t, "entries") {
		m.put(t, drawPath(t))
	}
	return m
}

// plain returns n files, sorted by key, with up to folder files per directory.
func plain(n, folder int) []page.Entry {
	entries := []page.Entry{{Type: page.Dir, Mode: 0o755, ModTime: then}}
	for i := 0; i < n; i += folder {
		entries = append(entries, page.Entry{Path: fmt.Sprintf("d%05d", i/folder), Type: page.Dir, Mode: 0o755, ModTime: then})
	}
	for i := range n {
		entries = append(entries, plainFile(i, folder))
	}
	return entries
}

func plainFile(i, folder int) page.Entry {
	var h codec.Hash
	binary.LittleEndian.PutUint64(h[:], uint64(i)*0x9e3779b97f4a7c15+1)
	binary.LittleEndian.PutUint64(h[8:], uint64(i)*0xbf58476d1ce4e5b9+1)
	return page.Entry{
		Path: fmt.Sprintf("d%05d/file-%07d.bin", i/folder, i), Mode: 0o644, Size: int64(i + 1), ModTime: then.Add(time.Duration(i%1000) * time.Second),
		ID: codec.FileID{File: h, Shard: codec.Hash{byte(i / 10_000), byte(i / 2_560_000), 1}, Block: int64(i%10_000) * 192},
	}
}
