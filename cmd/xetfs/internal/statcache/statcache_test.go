package statcache

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

var testHead = head{format, "0123", "org/model", "/data"}

// drawEntries draws some files in the order of their keys.
func drawEntries(t *rapid.T) []*Entry {
	paths := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,2}(/[a-c\x{1}\x{ff}]{1,3}){0,3}`), 0, 40, rapid.ID[string]).Draw(t, "paths")
	slices.SortFunc(paths, page.ComparePaths)
	files := make([]*Entry, len(paths))
	hash := rapid.Custom(func(t *rapid.T) codec.Hash { return codec.Hash{rapid.Byte().Draw(t, "hash"), 31: 1} })
	for i, path := range paths {
		r := &Entry{Key: []byte(page.Key(path))}
		r.Stat = StatInfo{
			Size: rapid.Int64Range(1, 1<<40).Draw(t, "size"), MTime: rapid.Int64().Draw(t, "mtime"), CTime: rapid.Int64().Draw(t, "ctime"),
			Inode: rapid.Uint64().Draw(t, "inode"), Dev: rapid.Uint64().Draw(t, "dev"),
		}
		if rapid.Bool().Draw(t, "inline") {
			r.Inline = rapid.SliceOfN(rapid.Byte(), 1, page.MaxInline).Draw(t, "content")
			r.Stat.Size = int64(len(r.Inline))
		} else {
			r.ID = codec.FileID{File: hash.Draw(t, "file"), Shard: hash.Draw(t, "shard"), Block: blockUnit * rapid.Int64Range(0, 1<<40).Draw(t, "block")}
		}
		if rapid.Bool().Draw(t, "with SHA-256") {
			r.SHA256 = &[32]byte{rapid.Byte().Draw(t, "SHA-256")}
		}
		files[i] = r
	}
	return files
}

func writeEntries(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, files []*Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newWriter(&b, testHead)
	for i, r := range files {
		w.add(r)
		if i%5 == 4 {
			w.flush() // a part is full
		}
	}
	if err := w.close(); err != nil {
		t.Fatalf("%v", err)
	}
	return b.Bytes()
}

var compareEntries = cmp.AllowUnexported(Entry{}, StatInfo{})

// Find returns each entry that was added, and no other.
func TestRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := drawEntries(t)
		r, err := newReader(bytes.NewReader(writeEntries(t, files)), testHead)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range files {
			if rapid.Bool().Draw(t, "ask between") {
				if got := r.find(append(bytes.Clone(want.Key[:len(want.Key)-1]), want.Key[len(want.Key)-1]-1, 0xff, 'x')); got != nil {
					t.Fatalf("found %q, which was not added", got.Key)
				}
			}
			if rapid.Bool().Draw(t, "leave out") {
				continue
			}
			if diff := cmp.Diff(r.find(want.Key), want, compareEntries); diff != "" {
				t.Fatalf("%q (-got +want):\n%s", want.Key, diff)
			}
		}
		if got := r.find([]byte{0xff, 0xff}); got != nil {
			t.Fatalf("found %q behind the end", got.Key)
		}
	})
}

// A damaged file has fewer entries, never wrong ones.
func TestRecordDamaged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := drawEntries(t)
		b := writeEntries(t, files)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		if rapid.Bool().Draw(t, "cut") {
			b = b[:at]
		} else {
			b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		r, err := newReader(bytes.NewReader(b), testHead)
		if err != nil {
			return
		}
		for _, want := range files {
			if got := r.find(want.Key); got != nil && !cmp.Equal(got, want, compareEntries) {
				t.Fatalf("%q:\n%s", want.Key, cmp.Diff(got, want, compareEntries))
			}
		}
	})
}

func TestRecordOfAnother(t *testing.T) {
	b := writeEntries(t, nil)
	for _, other := range []head{
		{format - 1, "0123", "org/model", "/data"}, {format, "0124", "org/model", "/data"},
		{format, "0123", "org/mode", "/data"}, {format, "0123", "org/model", "/dat"},
	} {
		if _, err := newReader(bytes.NewReader(b), other); err == nil {
			t.Errorf("the file of %v is that of %v", testHead, other)
		}
	}
}

// FuzzRecord checks one promise of decode: it ends without a panic.
func FuzzRecord(f *testing.F) {
	r := &Entry{Key: []byte("\x00a"), Stat: StatInfo{Size: 3, Inode: 7}, Inline: []byte("abc"), SHA256: new([32]byte)}
	part := appendEntry(nil, r, nil, nil)
	shards := map[codec.Hash]uint64{}
	part = appendEntry(part, &Entry{Key: []byte("\x00ab"), Stat: StatInfo{Size: 300}, ID: codec.FileID{Shard: codec.Hash{1}}}, r.Key, shards)
	f.Add(part)
	f.Fuzz(func(_ *testing.T, part []byte) {
		rr := &reader{part: part}
		for len(rr.part) > 0 && rr.decode() {
			_ = rr.find(rr.next.Key)
		}
	})
}

// A file is replaced as a whole, and ignored if another user could have written it.
func TestReplace(t *testing.T) {
	p, err := NewPath(filepath.Join(t.TempDir(), "xetfs", "publish"), "0123", "org/model", "/data\xff")
	if err != nil {
		t.Fatal(err)
	}
	file := &Entry{Key: []byte("\x00a"), Stat: StatInfo{Size: 1}, Inline: []byte("x")}
	has := func() bool {
		f := Open(p)
		defer f.Close()
		return f.Find(file.Key) != nil
	}
	if has() {
		t.Error("found in a missing file")
	}
	for _, keep := range []bool{false, true} {
		u, err := Create(p)
		if err != nil {
			t.Fatal(err)
		}
		u.Add(file)
		if !keep {
			u.Close()
		} else if err := u.Replace(); err != nil {
			t.Fatal(err)
		}
		if has() != keep {
			t.Errorf("found: %v, want %v", !keep, keep)
		}
	}
	for mode, believed := range map[os.FileMode]bool{0o600: true, 0o622: false, 0o620: false, 0o644: true} {
		if err := os.Chmod(p.file, mode); err != nil {
			t.Fatal(err)
		}
		if has() != believed {
			t.Errorf("a file with mode %o is believed: %v", mode, !believed)
		}
	}
	for path, mode := range map[string]os.FileMode{p.dir: 0o700, filepath.Dir(p.dir): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(p.dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestRemoveOld(t *testing.T) {
	p, err := NewPath(filepath.Join(t.TempDir(), "xetfs", "publish"), "0123", "org/model", "/data")
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	stays := map[string]bool{}
	for _, f := range []struct {
		name  string
		age   time.Duration
		stays bool
	}{{strings.Repeat("a", 32), 179 * day, true}, {strings.Repeat("b", 32), 181 * day, false}, {"notes.txt", 181 * day, true}, {strings.Repeat("z", 32), 181 * day, true},
		{tempPrefix + "1", 6 * day, true}, {tempPrefix + "2", 8 * day, false}} {
		path := filepath.Join(p.dir, f.name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-f.age)); err != nil {
			t.Fatal(err)
		}
		stays[path] = f.stays
	}
	p.removeOld()
	for path, want := range stays {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestRacy(t *testing.T) {
	const second = int64(time.Second)
	tests := []struct {
		name         string
		mtime, ctime int64
		want         bool
	}{
		{"long ago", 0, 0, false},
		{"just long enough", 98*second - 1, 0, false},
		{"changed lately", 98 * second, 0, true},
		{"renamed lately, with an old time", 0, 99 * second, true},
		{"from the future", 200 * second, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (StatInfo{MTime: tt.mtime, CTime: tt.ctime}).Racy(100 * second); got != tt.want {
				t.Errorf("racy = %v, want %v", got, tt.want)
			}
		})
	}
}
