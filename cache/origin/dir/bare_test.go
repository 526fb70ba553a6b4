package dir_test

import (
	"bytes"
	"errors"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// write writes a file and the folders above it.
func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func openBare(t *testing.T, folder string) *dir.Bare {
	t.Helper()
	s, err := dir.OpenBare(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	return s
}

func TestBare(t *testing.T) {
	for name, path := range map[string]func(k names.Key, i int) string{
		"as in a store":      func(k names.Key, _ int) string { return string(k) },
		"flat and nameless":  func(_ names.Key, i int) string { return strings.Repeat("x", i+1) },
		"deep and mislabled": func(k names.Key, i int) string { return strings.Repeat("d/", i) + filepath.Base(string(k)) + ".bin" },
	} {
		t.Run(name, func(t *testing.T) {
			origintest.TestStore(t, func(t *testing.T) origin.Store {
				root := t.TempDir()
				objects := origintest.Samples(t)
				for i, k := range slices.Sorted(maps.Keys(objects)) {
					write(t, filepath.Join(root, path(k, i)), objects[k])
				}
				return openBare(t, root)
			})
		})
	}
}

func TestBareSource(t *testing.T) {
	isLocal := func(origin.Store) bool { return true }
	suite := origintest.SourceSuite{Local: isLocal, Open: func(t *testing.T, s origin.Store) origin.Source {
		root := t.TempDir()
		for item, err := range s.List(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(root, filepath.Base(string(item.Key))), origintest.Get(t, s, item.Key))
		}
		return objects.New(openBare(t, root), objects.Options{})
	}}
	suite.Run(t)
}

// sample is one shard and one xorb in a form.
func sample(t *testing.T, form origintest.Form) (shard, body []byte, x *origintest.Xorb) {
	b := origintest.NewBuilder(t, form)
	b.Add(origintest.Text(1, 3000), 1000)
	return b.Shard(), b.Xorbs[0].Bytes, b.Xorbs[0]
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0xff
	return b
}

// The content of a file decides its kind. Its key has the hash from the most reliable place.
func TestNames(t *testing.T) {
	shard, stored, x := sample(t, origintest.Form{})
	_, bare, _ := sample(t, origintest.Form{NoFooter: true})
	_, old, _ := sample(t, origintest.Form{Footer: xorb.FooterV0})
	other := codec.Hash{1, 2, 3}
	otherDigits := other.String()
	shardHash := merkle.Chunk(shard)
	tests := []struct {
		name string
		file string
		b    []byte
		want names.Key // empty: it has no key
		err  bool      // Files returns the reason
	}{
		{"a shard by the hash of its bytes", "a.shard", shard, names.ShardKey(shardHash), false},
		{"a shard by its digits", otherDigits + ".mdb", shard, names.ShardKey(other), false},
		{"upper case digits", strings.ToUpper(otherDigits), shard, names.ShardKey(other), false},
		{"digits with something around", "shard-" + otherDigits + "-1.bin", shard, names.ShardKey(other), false},
		{"too many digits", otherDigits + "0", shard, names.ShardKey(shardHash), false},
		{"digits of the folder do not count", otherDigits + "/a", shard, names.ShardKey(shardHash), false},
		{"a shard called xorb", "a.xorb", shard, names.ShardKey(shardHash), false},
		{"a xorb by its footer", "a", stored, x.Key(), false},
		{"a xorb by its old footer", "a", old, x.Key(), false},
		{"footer before digits", otherDigits + ".xorb", stored, x.Key(), false},
		{"a xorb without footer by its digits", otherDigits, bare, names.XorbKey(other), false},
		{"a xorb without footer by unpacking it", "a", bare, x.Key(), false},
		{"a xorb called shard", "a.shard", bare, x.Key(), false},
		{"deep down", "a/b/c/d/e/f/g/h", stored, x.Key(), false},
		{"hidden", ".a", stored, x.Key(), false},
		{"an odd name", "a\n\xff b", stored, x.Key(), false},

		{"empty", "a", nil, "", false},
		{"empty and called xorb", "a.xorb", nil, "", true},
		{"text", "README.md", []byte("# Read me\n"), "", false},
		{"text called shard", "a.SHARD", []byte("# Read me\n"), "", true},
		{"text with digits", otherDigits, []byte("# Read me\n"), "", true},
		{"a shard with damaged magic", "a.shard", flip(shard, 0), "", true},
		{"a shard with damaged magic and no name", "a", flip(shard, 0), "", false},
		{"a xorb without footer that does not unpack", "a.xorb", flip(bare, 200), "", true},
		{"the same without a name", "a", flip(bare, 200), "", false},
		{"half a xorb", "a.xorb", bare[:len(bare)/2], "", true},
		{"half a xorb without a name", "a", bare[:len(bare)/2], "", false},
		{"half a xorb with digits", otherDigits, bare[:len(bare)/2], names.XorbKey(other), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, tt.file), tt.b)
			s := openBare(t, root)
			files, err := s.Files(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var keys []names.Key
			for item := range s.List(t.Context(), "", "") {
				keys = append(keys, item.Key)
			}
			if (tt.want == "") != (len(keys) == 0) || (tt.want != "" && keys[0] != tt.want) {
				t.Errorf("keys %q, want %q", keys, tt.want)
			}
			if shown := tt.want != "" || tt.err; shown != (len(files) == 1) {
				t.Fatalf("Files = %+v", files)
			}
			if len(files) == 1 && (files[0].Path != filepath.ToSlash(tt.file) || (files[0].Err != nil) != tt.err) {
				t.Errorf("Files = %+v", files)
			}
			if tt.want != "" {
				if _, err := s.Size(t.Context(), tt.want); err != nil {
					t.Errorf("Size: %v", err)
				}
			}
		})
	}
}

func TestNoFolder(t *testing.T) {
	_, err := dir.OpenBare(t.Context(), filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("OpenBare = %v, want %v", err, iofs.ErrNotExist)
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	if _, err := dir.OpenBare(t.Context(), file); err == nil || errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("OpenBare of a file = %v, want another error", err)
	}
}

func TestEmptyFolder(t *testing.T) {
	s := openBare(t, t.TempDir())
	if files, err := s.Files(t.Context()); len(files) != 0 || err != nil {
		t.Errorf("Files = %v, %v", files, err)
	}
	for item, err := range s.List(t.Context(), "", "") {
		t.Errorf("List yields %v, %v", item, err)
	}
}

// Files that are added later are not seen. Files that were found stay readable.
func TestGrowingFolder(t *testing.T) {
	root := t.TempDir()
	shard, body, x := sample(t, origintest.Form{})
	write(t, filepath.Join(root, "a"), shard)
	s := openBare(t, root)
	write(t, filepath.Join(root, "b"), body)
	if _, err := s.Size(t.Context(), x.Key()); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Size = %v, want %v", err, origin.ErrNotFound)
	}
	if n, err := s.Size(t.Context(), names.ShardKey(merkle.Chunk(shard))); err != nil || n != int64(len(shard)) {
		t.Errorf("Size of the shard = %d, %v", n, err)
	}
}

func TestDuplicates(t *testing.T) {
	root := t.TempDir()
	_, body, x := sample(t, origintest.Form{})
	for i, name := range []string{"a", "b", "c"} {
		write(t, filepath.Join(root, name), flip(body, 20+i)) // in the first chunk
	}
	s := openBare(t, root)
	first := func() byte {
		var b [3]byte
		if err := s.ReadAt(t.Context(), x.Key(), b[:], 20); err != nil {
			t.Fatal(err)
		}
		for i := range b {
			if b[i] != body[20+i] {
				return 'a' + byte(i)
			}
		}
		return '?'
	}
	var got []byte
	for range 7 {
		got = append(got, first())
		if others := s.RejectKey(x.Key()); others != 2 {
			t.Errorf("RejectKey = %d, want 2", others)
		}
	}
	if want := "abcabca"; string(got) != want {
		t.Errorf("copies in use: %s, want %s", got, want)
	}
	if others := s.RejectKey("tdata/xorb/none"); others != 0 {
		t.Errorf("RejectKey of nothing = %d", others)
	}
	if files, err := s.Files(t.Context()); len(files) != 3 || err != nil {
		t.Errorf("Files = %v, %v, want all three", files, err)
	}
}

// A shard whose name says nothing must be read whole. One that claims to be huge is not.
func TestHugeNamelessShard(t *testing.T) {
	root := t.TempDir()
	shard, _, _ := sample(t, origintest.Form{})
	name := filepath.Join(root, "a.shard")
	write(t, name, shard)
	if err := os.Truncate(name, 1<<50); err != nil {
		if err := os.Truncate(name, 1<<40); err != nil {
			t.Skip(err)
		}
	}
	files, err := openBare(t, root).Files(t.Context())
	if err != nil || len(files) != 1 || files[0].Err == nil {
		t.Errorf("Files = %v, %v, want one that is too large", files, err)
	}
}

// Opening a folder opens each file once, and those without a name once more.
func TestOpens(t *testing.T) {
	root := t.TempDir()
	shard, _, _ := sample(t, origintest.Form{})
	for i := range 1000 {
		h := codec.Hash{byte(i), byte(i >> 8), 1}
		write(t, filepath.Join(root, h.String()), shard)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, root, unix.IN_OPEN); err != nil {
		t.Skip(err)
	}
	s := openBare(t, root)
	if _, err := s.Files(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countOpens(t, watch); n != 1000 {
		t.Errorf("1000 files were opened %d times", n)
	}
}

// countOpens counts the files that were opened in a folder, not the folder itself.
func countOpens(t *testing.T, watch int) (n int) {
	b := make([]byte, 1<<20)
	for {
		got, err := unix.Read(watch, b)
		if errors.Is(err, unix.EAGAIN) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < got; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&b[at]))
			if event.Mask&unix.IN_ISDIR == 0 {
				n++
			}
			at += unix.SizeofInotifyEvent + int(event.Len)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	root := t.TempDir()
	for i := range 20 {
		b := origintest.NewBuilder(t, origintest.Form{NoFooter: true, XorbChunks: 1000})
		b.Add(origintest.Random(uint64(i), 1<<20), 64<<10)
		write(t, filepath.Join(root, string(rune('a'+i))), b.Xorbs[0].Bytes)
	}
	s, err := dir.OpenBare(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // while xorbs are being named
		t.Error(err)
	}
}
