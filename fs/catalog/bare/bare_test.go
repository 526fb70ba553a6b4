package bare

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/fs/catalog"
)

var (
	stored  = time.Unix(1_600_000_000, 0) // when a test store's objects were modified
	created = time.Unix(1_700_000_000, 0) // when a test shard was created
)

// A memory is a store of test shards.
type memory struct {
	objects map[names.Key][]byte
	err     error // of ReadAt
	listErr error
}

func (m *memory) ReadAt(_ context.Context, k names.Key, p []byte, off int64) error {
	b, ok := m.objects[k]
	switch {
	case m.err != nil:
		return m.err
	case !ok:
		return origin.ErrNotFound
	case off+int64(len(p)) > int64(len(b)):
		return fmt.Errorf("%s: read past the end", k)
	}
	copy(p, b[off:])
	return nil
}

func (m *memory) Size(_ context.Context, k names.Key) (int64, error) {
	return int64(len(m.objects[k])), nil
}

func (m *memory) Get(context.Context, names.Key, origin.Tag) ([]byte, origin.Tag, error) {
	return nil, "", errors.ErrUnsupported
}

func (m *memory) List(_ context.Context, prefix string, _ names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		if m.listErr != nil {
			yield(origin.Item{}, m.listErr)
			return
		}
		for _, k := range slices.Sorted(maps.Keys(m.objects)) {
			if strings.HasPrefix(string(k), prefix) &&
				!yield(origin.Item{Key: k, Size: int64(len(m.objects[k])), Modified: stored}, nil) {
				return
			}
		}
	}
}

// add stores a shard of files and returns its name.
func (m *memory) add(t testing.TB, footer bool, files ...*shard.FileInfo) codec.Hash {
	t.Helper()
	w := &shard.Writer{Created: created}
	for _, f := range files {
		w.AddFile(f)
	}
	encode := w.Encode
	if !footer {
		encode = w.EncodeUpload
	}
	b, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	h := merkle.Chunk(b)
	m.objects[names.ShardKey(h)] = b
	return h
}

func newMemory() *memory { return &memory{objects: map[names.Key][]byte{}} }

// fileOf returns a file with a hash that n gives, of n bytes.
func fileOf(n uint32) *shard.FileInfo {
	if n == 0 {
		return new(shard.FileInfo)
	}
	var h codec.Hash
	binary.BigEndian.PutUint32(h[4:], n) // the first digits of the text, which sort
	f := &shard.FileInfo{File: h.Swapped()}
	f.File[20] = 7
	f.Terms = []codec.Term{{Xorb: codec.Hash{1}, Chunks: codec.ChunkRange{End: 1}, Size: n}}
	return f
}

func withSHA(f *shard.FileInfo, first byte) *shard.FileInfo {
	f.SHA256 = [32]byte{first, 0xab}
	return f
}

func openBare(t testing.TB, s origin.Store) (*Catalog, catalog.Tree) {
	t.Helper()
	c, err := Open(context.Background(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := c.Open(context.Background(), "", names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	return c, tree
}

func list(t testing.TB, tree catalog.Tree, dir, after string) []string {
	t.Helper()
	var found []string
	for e, err := range tree.List(context.Background(), dir, after) {
		if err != nil {
			t.Fatalf("List(%q): %v", dir, err)
		}
		found = append(found, strings.TrimPrefix(e.Path, dir+"/"))
	}
	return found
}

func TestBare(t *testing.T) {
	m := newMemory()
	a, b := withSHA(fileOf(3), 0xcc), withSHA(fileOf(5), 0x11)
	one := m.add(t, true, a, b, fileOf(0))
	two := m.add(t, false, fileOf(3), fileOf(9))
	keyed := m.add(t, true)
	m.objects["tdata/shard/zz/not a shard"] = nil
	c, tree := openBare(t, m)
	if len(c.Damaged()) != 0 {
		t.Errorf("damaged: %v", c.Damaged())
	}
	shards := []codec.Hash{one, two, keyed}
	slices.SortFunc(shards, codec.Hash.Compare)
	first := one // has file 3 and the lower key
	if two.Compare(one) < 0 {
		first = two
	}
	text := func(n uint32) string { return fileOf(n).File.String() }
	lists := []struct {
		dir, after string
		want       []string
	}{
		{"", "", []string{"by-hash", "by-sha256", "shards"}},
		{"", "by-hash", []string{"by-sha256", "shards"}},
		{"by-hash", "", []string{text(0), text(3), text(5), text(9)}},
		{"by-hash", text(3), []string{text(5), text(9)}},
		{"by-hash", text(3)[:40], []string{text(3), text(5), text(9)}},
		{"by-hash", "zz", nil},
		{"by-sha256", "", []string{hex.EncodeToString(b.SHA256[:]), hex.EncodeToString(a.SHA256[:])}},
		{"shards", "", []string{shards[0].String(), shards[1].String(), shards[2].String()}},
		{"shards/" + one.String(), "", []string{text(0), text(3), text(5)}},
		{"shards/" + two.String(), text(3), []string{text(9)}},
		{"shards/" + keyed.String(), "", nil},
	}
	for _, tt := range lists {
		if got := list(t, tree, tt.dir, tt.after); !slices.Equal(got, tt.want) {
			t.Errorf("List(%q, %q) = %q, want %q", tt.dir, tt.after, got, tt.want)
		}
	}
	entries := []struct {
		path  string
		size  int64
		shard codec.Hash
		time  time.Time
	}{
		{"by-hash/" + text(3), 3, first, map[codec.Hash]time.Time{one: created, two: stored}[first]},
		{"by-hash/" + text(0), 0, one, created},
		{"by-sha256/" + hex.EncodeToString(a.SHA256[:]), 3, one, created},
		{"shards/" + two.String() + "/" + text(3), 3, two, stored},
		{"shards/" + one.String() + "/" + text(5), 5, one, created},
	}
	for _, tt := range entries {
		e, err := tree.Lookup(t.Context(), tt.path)
		if err != nil {
			t.Errorf("Lookup(%q): %v", tt.path, err)
			continue
		}
		if e.Path != tt.path || e.Type != page.File || e.Mode != 0o444 || e.Size != tt.size || e.ID.Shard != tt.shard || !e.ModTime.Equal(tt.time) || e.SHA256 != nil {
			t.Errorf("Lookup(%q) = %+v", tt.path, e)
		}
		fi, err := shard.ReadFileInfo(bytes.NewReader(m.objects[names.ShardKey(e.ID.Shard)]), e.ID.Block)
		if err != nil || fi.File != e.ID.File || fi.Size() != e.Size {
			t.Errorf("%s: its block is %+v, %v", tt.path, fi, err)
		}
	}
	for path, want := range map[string]bool{
		"by-sha256/" + hex.EncodeToString(a.SHA256[:]): true, "by-sha256": false, "by-sha256/x": false, "by-hash/" + hex.EncodeToString(a.SHA256[:]): false,
	} {
		if sum, ok := tree.(catalog.Claimer).ClaimedSHA256(path); ok != want || ok && sum != a.SHA256 {
			t.Errorf("ClaimedSHA256(%q) = %x, %t, want %t", path, sum, ok, want)
		}
	}
	for _, path := range []string{"", "by-hash", "by-sha256", "shards", "shards/" + keyed.String()} {
		if e, err := tree.Lookup(t.Context(), path); err != nil || e.Type != page.Dir || e.Mode != 0o555 || e.Path != path {
			t.Errorf("Lookup(%q) = %+v, %v", path, e, err)
		}
	}
	files, sum := tree.Totals()
	if files != 4 || sum != 0+3+5+9 {
		t.Errorf("totals = %d files, %d bytes", files, sum)
	}
}

func TestBareAbsent(t *testing.T) {
	m := newMemory()
	s := m.add(t, true, fileOf(0xabc)).String()
	_, tree := openBare(t, m)
	there := fileOf(0xabc).File.String()
	for _, path := range []string{
		"x", "by-hash/", "by-hash/x", "by-hash/" + there[1:], "by-hash/" + there + "0", "by-hash/" + strings.ToUpper(there),
		"by-hash/" + there + "/x", "by-sha256/" + there, "by-hash/" + fileOf(4).File.String(), "shards/" + there,
		"shards/" + s + "/x", "shards/" + s + "/" + s, "/by-hash", there,
	} {
		if e, err := tree.Lookup(t.Context(), path); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("Lookup(%q) = %+v, %v", path, e, err)
		}
	}
	for _, dir := range []string{"x", "by-hash/" + there, "shards/x", "shards/" + there} {
		for _, err := range tree.List(t.Context(), dir, "") {
			if !errors.Is(err, iofs.ErrNotExist) {
				t.Errorf("List(%q): %v", dir, err)
			}
		}
	}
}

func TestBareEmpty(t *testing.T) {
	_, tree := openBare(t, newMemory())
	for _, dir := range topDirs {
		if got := list(t, tree, dir, ""); got != nil {
			t.Errorf("%s holds %q", dir, got)
		}
	}
	if got := list(t, tree, "", ""); !slices.Equal(got, topDirs) {
		t.Errorf("the root holds %q", got)
	}
}

// A damaged shard is said once, and left out.
func TestBareDamaged(t *testing.T) {
	m := newMemory()
	m.add(t, true, fileOf(1))
	bad := m.add(t, true, fileOf(2), fileOf(3))
	m.objects[names.ShardKey(bad)] = m.objects[names.ShardKey(bad)][:100]
	var log bytes.Buffer
	c, err := Open(t.Context(), m, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	tree, _ := c.Open(t.Context(), "", names.AsOf{})
	if got := list(t, tree, "by-hash", ""); len(got) != 1 {
		t.Errorf("by-hash holds %q", got)
	}
	if got := list(t, tree, "shards", ""); len(got) != 1 {
		t.Errorf("shards holds %q", got)
	}
	if d := c.Damaged(); len(d) != 1 || !errors.Is(d[0], codec.ErrCorrupt) || !strings.Contains(d[0].Error(), bad.String()) {
		t.Errorf("Damaged = %v", d)
	}
	if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "event=corrupt what=shard") {
		t.Errorf("log = %q", s)
	}
}

func TestBareStoreGone(t *testing.T) {
	m := newMemory()
	m.add(t, true, fileOf(1))
	m.err = fmt.Errorf("disk: %w", origin.ErrUnavailable)
	if _, err := Open(t.Context(), m, Options{}); !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("unreadable: %v", err)
	}
	if _, err := Open(t.Context(), &memory{listErr: errors.ErrUnsupported}, Options{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no listing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.err = nil
	if _, err := Open(ctx, m, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A listing is sorted and has each name once, for any shards. Lookup returns the listed
// entry, and a listing behind any name has the rest.
func TestBareProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMemory()
		for range rapid.IntRange(0, 4).Draw(rt, "shards") {
			var files []*shard.FileInfo
			for _, n := range rapid.SliceOfN(rapid.Uint32Range(0, 12), 0, 8).Draw(rt, "files") {
				f := fileOf(n)
				if rapid.Bool().Draw(rt, "sha256") {
					withSHA(f, byte(n%5))
				}
				files = append(files, f)
			}
			m.add(t, rapid.Bool().Draw(rt, "footer"), files...)
		}
		_, tree := openBare(t, m)
		checkTree(t, tree, "")
	})
}

// checkTree checks a folder and those in it, and returns how many entries it saw.
func checkTree(t testing.TB, tree catalog.Tree, dir string) int {
	t.Helper()
	var all []page.Entry
	for e, err := range tree.List(context.Background(), dir, "") {
		if err != nil {
			t.Fatalf("List(%q): %v", dir, err)
		}
		all = append(all, e)
	}
	n := len(all)
	for i, e := range all {
		if i > 0 && all[i-1].Path >= e.Path {
			t.Fatalf("%q is listed before %q", all[i-1].Path, e.Path)
		}
		got, err := tree.Lookup(context.Background(), e.Path)
		if err != nil || got.ID != e.ID || got.Size != e.Size || got.Path != e.Path || got.Type != e.Type {
			t.Fatalf("Lookup(%q) = %+v, %v, listed as %+v", e.Path, got, err, e)
		}
		if e.Type == page.Dir {
			n += checkTree(t, tree, e.Path)
		}
	}
	if len(all) > 0 {
		i := len(all) / 2
		rest := list(t, tree, dir, strings.TrimPrefix(all[i].Path, dir+"/"))
		if len(rest) != len(all)-i-1 {
			t.Fatalf("behind %q are %d entries, want %d", all[i].Path, len(rest), len(all)-i-1)
		}
	}
	return n
}

// manyFiles returns a store of n files with random hashes in shards.
func manyFiles(t testing.TB, n, shards int) *memory {
	m := newMemory()
	random := rand.New(rand.NewPCG(1, 2))
	for range shards {
		files := make([]*shard.FileInfo, n/shards)
		for i := range files {
			f := &shard.FileInfo{Terms: []codec.Term{{Xorb: codec.Hash{1}, Chunks: codec.ChunkRange{End: 1}, Size: 1000}}}
			for w := range 4 {
				binary.LittleEndian.PutUint64(f.File[8*w:], random.Uint64())
				binary.LittleEndian.PutUint64(f.SHA256[8*w:], random.Uint64())
			}
			files[i] = f
		}
		m.add(t, true, files...)
	}
	return m
}

func TestBareManyFiles(t *testing.T) {
	const n = 100_000
	m := manyFiles(t, n, 10)
	before := heap()
	_, tree := openBare(t, m)
	perFile := float64(heap()-before) / n
	t.Logf("%.0f bytes of memory per file", perFile)
	if perFile > 110 {
		t.Errorf("%.0f bytes of memory per file", perFile)
	}
	if got, want := checkTree(t, tree, ""), 3+10+3*n; got != want {
		t.Errorf("%d entries, want %d", got, want)
	}
	runtime.KeepAlive(m)
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools held
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func BenchmarkBare(b *testing.B) {
	for _, size := range []struct{ files, shards int }{{10_000, 1000}, {100_000, 10}, {1_000_000, 100}} {
		b.Run(fmt.Sprintf("%d files in %d shards", size.files, size.shards), func(b *testing.B) {
			m := manyFiles(b, size.files, size.shards)
			b.ReportAllocs()
			for b.Loop() {
				openBare(b, m)
			}
		})
	}
}

func BenchmarkBareTree(b *testing.B) {
	_, tree := openBare(b, manyFiles(b, 100_000, 10))
	paths := list(b, tree, "by-hash", "")
	for i := range paths {
		paths[i] = "by-hash/" + paths[i]
	}
	b.Run("Lookup", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := tree.Lookup(b.Context(), paths[i*7919%len(paths)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("List of 100", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for range tree.List(b.Context(), "by-hash", "8") {
				if n++; n == 100 {
					break
				}
			}
		}
	})
}

// F57: a file of no terms has the hash of the empty file, and no SHA-256 but that of no bytes.
func TestF57_EmptyFiles(t *testing.T) {
	other := codec.Hash{1}
	tests := []struct {
		name    string
		file    codec.Hash
		sha     [32]byte
		damaged bool
		names   int // in by-sha256
	}{
		{"no SHA-256", codec.Hash{}, [32]byte{}, false, 0},
		{"the right one", codec.Hash{}, sha256.Sum256(nil), false, 1},
		{"another one", codec.Hash{}, [32]byte{1}, false, 0},
		{"another hash", other, [32]byte{}, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory()
			m.add(t, true, &shard.FileInfo{File: tt.file, SHA256: tt.sha, Metadata: true})
			c, tree := openBare(t, m)
			if damaged := len(c.Damaged()) > 0; damaged != tt.damaged {
				t.Errorf("damaged = %t (%v), want %t", damaged, c.Damaged(), tt.damaged)
			}
			if names := list(t, tree, "by-sha256", ""); len(names) != tt.names {
				t.Errorf("by-sha256 has %v, want %d names", names, tt.names)
			}
		})
	}
}

// All yields the same entries as Walk, in the order of their keys.
func TestBareAll(t *testing.T) {
	m := newMemory()
	m.add(t, true, withSHA(fileOf(3), 0xcc), withSHA(fileOf(5), 0x11), fileOf(0))
	m.add(t, false, fileOf(3), fileOf(9))
	m.add(t, true)
	_, tree := openBare(t, m)
	if !tree.OneInode() {
		t.Error("files with one ID are several inodes")
	}
	paths := func(entries iter.Seq2[page.Entry, error]) (paths []string) {
		for e, err := range entries {
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, e.Path)
		}
		return paths
	}
	whole := paths(catalog.Walk(t.Context(), tree, ""))
	if len(whole) != 3+4+2+3+3+2 {
		t.Errorf("Walk = %q", whole)
	}
	for _, dir := range []string{"", dirHash, dirSHA256, dirShards, whole[len(whole)-1]} {
		want := []string{dir}
		for _, path := range whole {
			if dir == "" || strings.HasPrefix(path, dir+"/") {
				want = append(want, path)
			}
		}
		slices.SortFunc(want, page.ComparePaths)
		if got := paths(tree.All(t.Context(), dir)); !slices.Equal(got, want) {
			t.Errorf("All(%q) = %q, want %q", dir, got, want)
		}
		for e := range tree.All(t.Context(), dir) {
			if e.Path != dir {
				t.Errorf("All(%q) continues after a stop with %q", dir, e.Path)
			}
			break
		}
	}
	for _, err := range tree.All(t.Context(), "absent") {
		if !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("All of an absent path: %v, want ErrNotExist", err)
		}
	}
}
