package main

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

var testHead = recordHead{recordFormat, "0123", "org/model", "/data"}

// drawRecord draws some files in the order of their keys.
func drawRecord(t *rapid.T) []*recorded {
	paths := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,2}(/[a-c\x{1}\x{ff}]{1,3}){0,3}`), 0, 40, rapid.ID[string]).Draw(t, "paths")
	slices.SortFunc(paths, page.ComparePaths)
	files := make([]*recorded, len(paths))
	hash := rapid.Custom(func(t *rapid.T) codec.Hash { return codec.Hash{rapid.Byte().Draw(t, "hash"), 31: 1} })
	for i, path := range paths {
		r := &recorded{key: []byte(page.Key(path))}
		r.stamp = stamp{
			size: rapid.Int64Range(1, 1<<40).Draw(t, "size"), mtime: rapid.Int64().Draw(t, "mtime"), ctime: rapid.Int64().Draw(t, "ctime"),
			inode: rapid.Uint64().Draw(t, "inode"), dev: rapid.Uint64().Draw(t, "dev"),
		}
		if rapid.Bool().Draw(t, "inline") {
			r.inline = rapid.SliceOfN(rapid.Byte(), 1, page.MaxInline).Draw(t, "content")
			r.stamp.size = int64(len(r.inline))
		} else {
			r.id = codec.FileID{File: hash.Draw(t, "file"), Shard: hash.Draw(t, "shard"), Block: recordBlock * rapid.Int64Range(0, 1<<40).Draw(t, "block")}
		}
		if rapid.Bool().Draw(t, "with SHA-256") {
			r.sha256 = &[32]byte{rapid.Byte().Draw(t, "SHA-256")}
		}
		files[i] = r
	}
	return files
}

func writeRecord(t fataler, files []*recorded) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newRecordWriter(&b, testHead)
	for i, r := range files {
		w.add(r)
		if i%5 == 4 {
			w.end() // a part is full
		}
	}
	if err := w.close(); err != nil {
		t.Fatalf("%v", err)
	}
	return b.Bytes()
}

var compareRecorded = cmp.AllowUnexported(recorded{}, stamp{})

// What is written is found, and what is not is not, if it is asked for in order.
func TestRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := drawRecord(t)
		r, err := newRecordReader(bytes.NewReader(writeRecord(t, files)), testHead)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range files {
			if rapid.Bool().Draw(t, "ask between") {
				if got := r.find(append(bytes.Clone(want.key[:len(want.key)-1]), want.key[len(want.key)-1]-1, 0xff, 'x')); got != nil {
					t.Fatalf("found %q, which nobody wrote", got.key)
				}
			}
			if rapid.Bool().Draw(t, "leave out") {
				continue
			}
			if diff := cmp.Diff(r.find(want.key), want, compareRecorded); diff != "" {
				t.Fatalf("%q (-got +want):\n%s", want.key, diff)
			}
		}
		if got := r.find([]byte{0xff, 0xff}); got != nil {
			t.Fatalf("found %q behind the end", got.key)
		}
	})
}

// A damaged record says less, and nothing else.
func TestRecordDamaged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := drawRecord(t)
		b := writeRecord(t, files)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		if rapid.Bool().Draw(t, "cut") {
			b = b[:at]
		} else {
			b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		r, err := newRecordReader(bytes.NewReader(b), testHead)
		if err != nil {
			return
		}
		for _, want := range files {
			if got := r.find(want.key); got != nil && !cmp.Equal(got, want, compareRecorded) {
				t.Fatalf("%q:\n%s", want.key, cmp.Diff(got, want, compareRecorded))
			}
		}
	})
}

func TestRecordOfAnother(t *testing.T) {
	b := writeRecord(t, nil)
	for _, other := range []recordHead{
		{recordFormat - 1, "0123", "org/model", "/data"}, {recordFormat, "0124", "org/model", "/data"},
		{recordFormat, "0123", "org/mode", "/data"}, {recordFormat, "0123", "org/model", "/dat"},
	} {
		if _, err := newRecordReader(bytes.NewReader(b), other); err == nil {
			t.Errorf("the record of %v is that of %v", testHead, other)
		}
	}
}

// FuzzRecord holds the reader of parts to one promise: it ends, without a panic.
func FuzzRecord(f *testing.F) {
	r := &recorded{key: []byte("\x00a"), stamp: stamp{size: 3, inode: 7}, inline: []byte("abc"), sha256: new([32]byte)}
	part := appendRecorded(nil, r, nil, nil)
	shards := map[codec.Hash]uint64{}
	part = appendRecorded(part, &recorded{key: []byte("\x00ab"), stamp: stamp{size: 300}, id: codec.FileID{Shard: codec.Hash{1}}}, r.key, shards)
	f.Add(part)
	f.Fuzz(func(_ *testing.T, part []byte) {
		rr := &recordReader{part: part}
		for len(rr.part) > 0 && rr.decode() {
			_ = rr.find(rr.next.key)
		}
	})
}

// A record is replaced whole, and believed only if nobody else could have written it.
func TestRecordPlace(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p, err := newRecordPlace("0123", "org/model", "/data\xff")
	if err != nil {
		t.Fatal(err)
	}
	file := &recorded{key: []byte("\x00a"), stamp: stamp{size: 1}, inline: []byte("x")}
	has := func() bool {
		f := p.open()
		defer f.close()
		return f.reader().find(file.key) != nil
	}
	if has() {
		t.Error("found in a record that is not there")
	}
	for _, keep := range []bool{false, true} {
		n, err := p.create()
		if err != nil {
			t.Fatal(err)
		}
		n.add(file)
		if !keep {
			n.drop()
		} else if err := n.replace(); err != nil {
			t.Fatal(err)
		}
		if has() != keep {
			t.Errorf("found: %v, want %v", !keep, keep)
		}
	}
	for mode, believed := range map[os.FileMode]bool{0o600: true, 0o622: false, 0o620: false, 0o644: true} {
		if err := os.Chmod(p.path, mode); err != nil {
			t.Fatal(err)
		}
		if has() != believed {
			t.Errorf("a record with mode %o is believed: %v", mode, !believed)
		}
	}
	for path, mode := range map[string]os.FileMode{p.folder: 0o700, filepath.Dir(p.folder): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(p.folder, "*")); err != nil || len(left) != 1 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestRecordsOfOld(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p, err := newRecordPlace("0123", "org/model", "/data")
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
		{recordTemp + "1", 6 * day, true}, {recordTemp + "2", 8 * day, false}} {
		path := filepath.Join(p.folder, f.name)
		writeFile(t, path, nil)
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

func TestStampSettled(t *testing.T) {
	const second = int64(time.Second)
	tests := []struct {
		name         string
		mtime, ctime int64
		want         bool
	}{
		{"long ago", 0, 0, true},
		{"just long enough", 98*second - 1, 0, true},
		{"changed lately", 98 * second, 0, false},
		{"renamed lately, with an old time", 0, 99 * second, false},
		{"from the future", 200 * second, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (stamp{mtime: tt.mtime, ctime: tt.ctime}).settled(100 * second); got != tt.want {
				t.Errorf("settled = %v, want %v", got, tt.want)
			}
		})
	}
}
