package page

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
)

// A built tree is listed again. Every page is decoded, checked against its link, and encodes to
// the same bytes.
func TestBuildAndList(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		entries := sorted(drawTree(r))
		s := newStore()
		root := s.build(r, tiny, entries)
		got := s.list(r, root.Page)
		if !equalEntries(got, entries) {
			r.Fatalf("listed %+v, built from %+v", got, entries)
		}
		var size int64
		for _, e := range entries {
			size += e.Size
		}
		if root.Entries != int64(len(entries)) || root.Bytes != size || root.Last != Key(entries[len(entries)-1].Path) || root.Size != len(s.pages[root.Page]) {
			r.Fatalf("root = %+v for %d entries of %d bytes", root, len(entries), size)
		}
		for h, b := range s.pages {
			p, err := DecodeAs(h, b)
			if err != nil {
				r.Fatal(err)
			}
			if string(again(t, p)) != string(b) {
				r.Fatalf("page %v is not what its rows encode to", h)
			}
		}
	})
}

// Pages keep to their sizes, and the last one of a level alone is shorter.
func TestPageSizes(t *testing.T) {
	s := newStore()
	sizes := Sizes{Min: 4 << 10, Max: 16 << 10, Bits: 7, Restart: 16}
	root := s.build(t, sizes, plainTree(20_000))
	total, n := 0, 0
	for h, b := range s.pages {
		p, err := DecodeAs(h, b)
		if err != nil {
			t.Fatal(err)
		}
		last := p.at(p.Len() - 1)
		f := p.form()
		if size := f.size(len(f.points)); string(last.key) != root.Last && (size < sizes.Min || size > sizes.Max+200) {
			t.Errorf("identity form of %d bytes", size)
		}
		total += len(b)
		n++
	}
	if average := total / n; n < 20 || average < 6<<10 || average > 14<<10 {
		t.Errorf("%d pages of %d bytes on average", n, average)
	}
}

// Add refuses entries that a page cannot represent, and the Builder fails from then on.
func TestAddRefuses(t *testing.T) {
	file := codec.FileID{File: codec.Hash{1}}
	sum := [32]byte{}
	tests := []struct {
		name   string
		entry  Entry
		reason string // empty if it is taken
	}{
		{"file", Entry{Path: "b", Size: 1, ID: file}, ""},
		{"time before 1970", Entry{Path: "b", ModTime: time.Unix(-5, 5)}, ""},
		{"key below the one before", Entry{Path: "A"}, `pages: key "\x00A" is not above "\x00a", the one before`},
		{"the same key", Entry{Path: "a"}, `pages: key "\x00a" is not above "\x00a", the one before`},
		{"root again", Entry{Path: "", Type: Dir}, `pages: key "" is not above "\x00a", the one before`},
		{"root that is a file", Entry{Path: ""}, `entry "": the root is not a directory`},
		{"path", Entry{Path: "../b"}, `path "../b": a name is ".."`},
		{"type", Entry{Path: "b", Type: 3}, `entry "b": type 3 is not known`},
		{"mode", Entry{Path: "b", Mode: 0o100644}, `entry "b": mode 0100644 has more than permission bits`},
		{"time", Entry{Path: "b", ModTime: time.Unix(1<<62, 0)}, `entry "b": modification time 4611686018427387904 is out of range`},
		{"size", Entry{Path: "b", Size: -1}, `entry "b": size -1`},
		{"no hash", Entry{Path: "b", Size: 1}, `entry "b": no hash for a file of 1 bytes`},
		{"hash of nothing", Entry{Path: "b", ID: file}, `entry "b": a hash for a file that is empty or has its content with it`},
		{"hash and content", Entry{Path: "b", Size: 1, Inline: []byte("x"), ID: file}, `entry "b": a hash for a file that is empty or has its content with it`},
		{"content of another size", Entry{Path: "b", Size: 2, Inline: []byte("x")}, `entry "b": content of 1 bytes in a file of 2`},
		{"much content", Entry{Path: "b", Size: 257, Inline: make([]byte, 257)}, `entry "b": content of 257 bytes, at most 256 are allowed`},
		{"block without shard", Entry{Path: "b", Size: 1, ID: codec.FileID{File: file.File, Block: 48}}, `entry "b": the File Info block is at 48 in shard ` + codec.Hash{}.String()},
		{"block between records", Entry{Path: "b", Size: 1, ID: codec.FileID{File: file.File, Shard: file.File, Block: 47}}, `entry "b": the File Info block is at 47 in shard ` + file.File.String()},
		{"directory with a size", Entry{Path: "b", Type: Dir, Size: 4096}, `entry "b": a directory with the size or content of a file`},
		{"link with a SHA-256", Entry{Path: "b", Type: Symlink, Target: "x", SHA256: &sum}, `entry "b": a link with the size or content of a file`},
		{"link to nothing", Entry{Path: "b", Type: Symlink}, `entry "b": a link without target`},
		{"file with a target", Entry{Path: "b", Target: "x"}, `entry "b": a file with a target`},
		{"attribute without name", Entry{Path: "b", Xattrs: map[string]string{"": "x"}}, `entry "b": an extended attribute is called ""`},
		{"long attribute", Entry{Path: "b", Xattrs: map[string]string{"x": strings.Repeat("x", 64<<10+1)}}, `entry "b": an extended attribute of 65537 bytes, at most 65536 are allowed`},
		{"attributes", Entry{Path: "b", Xattrs: map[string]string{"a": strings.Repeat("x", 64<<10), "b": strings.Repeat("x", 64<<10)}}, ""},
		{"many attributes", Entry{Path: "b", Xattrs: map[string]string{"a": strings.Repeat("x", 64<<10), "b": strings.Repeat("x", 64<<10), "c": strings.Repeat("x", 64<<10), "d": strings.Repeat("x", 64<<10)}}, `entry "b": extended attributes of 262189 bytes`},
		{"sum of sizes", Entry{Path: "b", Size: 1<<63 - 1, ID: file}, `pages: key "\x00b": the tree passes 2^63`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore()
			b := NewBuilder(DefaultSizes(), s.put)
			if err := b.Add(Entry{Path: "a", Size: 1, ID: file}); err != nil {
				t.Fatal(err)
			}
			err := b.Add(tt.entry)
			if tt.reason != "" {
				_, err2 := b.Close()
				if err == nil || err.Error() != tt.reason || err2 != err {
					t.Errorf("error = %v, then %v, want %s", err, err2, tt.reason)
				}
				return
			}
			root, err2 := b.Close()
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if got := s.list(t, root.Page)[1]; !got.Equal(&tt.entry) {
				t.Errorf("gave back %+v", got)
			}
		})
	}
}

func TestSizesCheck(t *testing.T) {
	tests := []struct {
		name string
		in   Sizes
		good bool
	}{
		{"default", DefaultSizes(), true},
		{"zero", Sizes{}, false},
		{"least above greatest", Sizes{Min: 2048, Max: 1024, Bits: 10, Restart: 16}, false},
		{"pages over the limit", Sizes{Min: 2048, Max: 1 << 20, Bits: 10, Restart: 16}, false},
		{"more bits than a hash has", Sizes{Min: 2048, Max: 4096, Bits: 11, Restart: 16}, false},
		{"no restart points", Sizes{Min: 2048, Max: 4096, Bits: 10}, false},
	}
	for _, tt := range tests {
		if err := tt.in.Check(); (err == nil) != tt.good {
			t.Errorf("%s: %v", tt.name, err)
		}
		err := NewBuilder(tt.in, newStore().put).Add(Entry{Type: Dir})
		if (err == nil) != tt.good {
			t.Errorf("%s: Add says %v", tt.name, err)
		}
	}
}

func TestPutFails(t *testing.T) {
	full := errors.New("disk full")
	b := NewBuilder(tiny, func(Hash, []byte) error { return full })
	for _, e := range plainTree(1000) {
		if err := b.Add(e); err != nil {
			break
		}
	}
	if err := b.Add(Entry{Path: "z"}); !errors.Is(err, full) {
		t.Errorf("Add says %v", err)
	}
	if _, err := b.Close(); !errors.Is(err, full) {
		t.Errorf("Close says %v", err)
	}
}

// A tree of more levels than the format has is refused instead of being cut short.
func TestTooDeep(t *testing.T) {
	s := Sizes{Min: headerSize, Max: headerSize, Bits: 1, Restart: 1} // a page for each row
	b := NewBuilder(s, newStore().put)
	var err error
	for _, e := range plainTree(5) {
		if err = b.Add(e); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "more than 6 levels") {
		t.Errorf("error = %v", err)
	}
}

// A small change of a tree changes few pages (catalog.md, test 4). A changed value changes one
// page per level, a new or deleted name hardly more.
func TestSharing(t *testing.T) {
	sizes := Sizes{Min: 2 << 10, Max: 16 << 10, Bits: 6, Restart: 16}
	base := plainTree(4000)
	old := newStore()
	root, err := old.Page(t.Context(), old.build(t, sizes, base).Page)
	if err != nil {
		t.Fatal(err)
	}
	levels := root.Level() + 1
	random := rand.New(rand.NewSource(1))
	written := func(entries []Entry) int {
		s := newStore()
		s.build(t, sizes, entries)
		n := 0
		for h := range s.pages {
			if _, ok := old.pages[h]; !ok {
				n++
			}
		}
		if n > 2*levels+8 {
			t.Errorf("%d pages written", n)
		}
		return n
	}
	const trials = 60
	once, sum := 0, 0
	for range trials {
		i := 1 + random.Intn(len(base)-1)
		changed := slices.Clone(base)
		changed[i].Mode ^= 0o100
		if written(changed) == levels {
			once++
		}
		inserted := base[i]
		inserted.Path += "x"
		sum += written(slices.Insert(slices.Clone(base), i+1, inserted))
		sum += written(slices.Delete(slices.Clone(base), i, i+1))
	}
	if once*100 < 98*trials {
		t.Errorf("%d of %d changes wrote one page in each of %d levels", once, trials, levels)
	}
	if average := float64(sum) / (2 * trials); average > float64(levels+1) {
		t.Errorf("an insertion or deletion wrote %.2f pages in %d levels", average, levels)
	}
}

// A Level that starts where a page of a tree starts makes the pages of that tree from there on.
// An update builds on this.
func TestLevelJoinsIn(t *testing.T) {
	entries := plainTree(600)
	s := newStore()
	root, err := s.Page(t.Context(), s.build(t, tiny, entries).Page)
	if err != nil {
		t.Fatal(err)
	}
	for root.Level() > 1 {
		l, _ := root.Link(root.Len() - 1)
		if root, err = s.Page(t.Context(), l.Page); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := root.Link(0)
	var got []Link
	level := NewLevel(tiny, 0, func(l Link, _ []byte) error {
		got = append(got, l)
		return nil
	})
	for _, e := range entries {
		if Key(e.Path) > first.Last {
			if err := level.AddEntry(&e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := level.End(); err != nil || level.Open() != 0 {
		t.Fatal(err, level.Open())
	}
	if want := slices.Collect(root.LinksFrom(1)); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d pages, want %d", len(got), len(want))
	}
	if err := level.AddLink(first); err == nil {
		t.Error("a link among entries was taken")
	}
}

func TestComparePaths(t *testing.T) {
	// In the order of their keys: a directory's entries together, before what is below them.
	paths := []string{"", "\x01", "-", ".x", "a", "a-b", "a.b", "\xff", "\x01/b", "a/\x01", "a/b", "a/b-", "a/\xff", "a/b/c", "a/b/c/d", "a-b/c"}
	if !slices.IsSortedFunc(paths, ComparePaths) {
		t.Errorf("sorted they are %q", slices.SortedFunc(slices.Values(paths), ComparePaths))
	}
	for _, path := range paths {
		if got, err := PathOf(Key(path)); got != path || err != nil {
			t.Errorf("PathOf(%q) = %q, %v, want %q", Key(path), got, err, path)
		}
	}
}

// The properties for which keys are as they are.
func TestKeyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		dir := drawPath(t)
		parent := func(path string) string {
			i := strings.LastIndexByte(path, '/')
			return path[:max(i, 0)]
		}
		for path := range tree {
			key := Key(path)
			child := path != "" && parent(path) == dir
			if got := strings.HasPrefix(key, ChildKey(dir)); got != child {
				t.Fatalf("%q is directly in %q: %v, want %v", path, dir, got, child)
			}
			if below := dir == "" || strings.HasPrefix(path, dir+"/"); strings.HasPrefix(key, DirKey(dir)) != below {
				t.Fatalf("%q is below %q: %v, want %v", path, dir, !below, below)
			}
			if child && key != ChildKey(dir)+strings.TrimPrefix(strings.TrimPrefix(path, dir), "/") {
				t.Fatalf("key of %q is %q", path, key)
			}
			if path != "" && ComparePaths(parent(path), path) >= 0 {
				t.Fatalf("%q is not above its directory", path)
			}
		}
	})
}

// S01: names that no tree may have, and odd ones that it may.
func TestS01CheckPath(t *testing.T) {
	tests := []struct {
		name, in, reason string
	}{
		{"root", "", ""},
		{"plain", "a/b.txt", ""},
		{"newline and escape codes", "a\n\x1b[31m/b", ""},
		{"not UTF-8", "\xff\xfe/\x80", ""},
		{"leading dash", "-rf", ""},
		{"dots", ".../..a/.b", ""},
		{"255 bytes", strings.Repeat("n", 255), ""},
		{"depth of 200", strings.Repeat("d/", 200) + "f", ""},
		{"256 bytes", strings.Repeat("n", 256), "a name of 256 bytes, at most 255 are allowed"},
		{"folder of 256 bytes", strings.Repeat("n", 256) + "/a", "a name of 256 bytes, at most 255 are allowed"},
		{"path of 4095 bytes", strings.Repeat("d/", 2047) + "f", ""},
		{"path of 4096 bytes", strings.Repeat("d/", 2047) + "ff", "a path of 4096 bytes, at most 4095 are allowed"},
		{".", ".", `a name is "."`},
		{"..", "a/../b", `a name is ".."`},
		{"absolute", "/a", "a name is empty"},
		{"trailing slash", "a/", "a name is empty"},
		{"two slashes", "a//b", "a name is empty"},
		{"slash", "/", "a name is empty"},
		{"NUL", "a\x00b", "a name holds a NUL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckPath(tt.in)
			want := fmt.Sprintf("path %.80q: %s", tt.in, tt.reason)
			if tt.reason == "" && err != nil || tt.reason != "" && (err == nil || err.Error() != want) {
				t.Errorf("error = %v, want %s", err, want)
			}
		})
	}
	if reason := badKey([]byte("\x00a/b")); reason != "a name holds a slash" {
		t.Errorf("a slash in a key: %q", reason)
	}
	if _, err := PathOf("a"); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("PathOf says %v", err)
	}
}

func TestParseHash(t *testing.T) {
	h := Sum([]byte("x"))
	if got, err := ParseHash(h.String()); got != h || err != nil {
		t.Errorf("ParseHash = %v, %v", got, err)
	}
	for _, bad := range []string{"", h.String()[1:], strings.ToUpper(h.String()), h.String() + "00", "x" + h.String()[1:]} {
		if _, err := ParseHash(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
