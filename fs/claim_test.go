package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A claimTree is a fakeTree with claims below by-sha256.
type claimTree struct{ *fakeTree }

func (t claimTree) Open(context.Context, string, names.AsOf) (catalog.Tree, error) { return t, nil }

func (t claimTree) OneInode() bool { return true }

func (t claimTree) ClaimedSHA256(path string) (sum [32]byte, ok bool) {
	name, ok := strings.CutPrefix(path, "by-sha256/")
	_, err := hex.Decode(sum[:], []byte(name))
	return sum, ok && err == nil
}

// F54: two records of a shard are exchanged, and each name in by-sha256 leads to the bytes of
// the other. A whole read fails, and the name is false from then on.
func TestF54_FalseClaim(t *testing.T) {
	for name, o := range map[string]Options{"stateless": {Stateless: true}, "handles": {}} {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine()
			right, other := pattern(3<<20), bytes.Repeat([]byte("x"), 3<<20)
			sum, otherSum := sha256.Sum256(right), sha256.Sum256(other)
			byHash := e.file("by-hash/f", right)
			byHash.ID.Shard[0] = 1
			honest, lie := byHash, byHash
			honest.Path, lie.Path = "by-sha256/"+hex.EncodeToString(sum[:]), "by-sha256/"+hex.EncodeToString(otherSum[:])
			m := mountFake(t, claimTree{newFakeTree(byHash, honest, lie)}, e, o)
			if _, err := unix.Getxattr(m.path("by-hash/f"), xattrSHA256, nil); err != unix.ENODATA {
				t.Errorf("%s before a whole read: %v", xattrSHA256, err)
			}
			if p := readPart(t, m.path(lie.Path)); !bytes.Equal(p, right[:len(p)]) {
				t.Error("a partial read has other bytes")
			}
			for range 2 {
				if b, err := os.ReadFile(m.path(lie.Path)); !errors.Is(err, unix.EIO) {
					t.Errorf("a whole read of the false name: %d bytes, %v, want EIO", len(b), err)
				}
			}
			for _, path := range []string{byHash.Path, honest.Path} {
				if b, err := os.ReadFile(m.path(path)); !bytes.Equal(b, right) || err != nil {
					t.Errorf("%s: %d bytes, %v", path, len(b), err)
				}
			}
			value := make([]byte, 64)
			if _, err := unix.Getxattr(m.path(lie.Path), xattrSHA256, value); string(value) != hex.EncodeToString(sum[:]) {
				t.Errorf("%s is %s, %v, want %x", xattrSHA256, value, err, sum)
			}
			if names, err := os.ReadDir(m.path("by-sha256")); len(names) != 2 || err != nil {
				t.Errorf("%d names are listed, %v, want 2", len(names), err)
			}
			if n := m.s.files.claims.Held(); n != 0 && o.Stateless == false {
				t.Errorf("%d bytes are held", n)
			}
		})
	}
}

func readPart(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 4096)
	if _, err := f.ReadAt(p, 0); err != nil {
		t.Error(err)
	}
	return p
}

// A second handle uses the pages that the first one has read, and the claim is compared when both have
// read the whole file.
func TestHandlesShareClaim(t *testing.T) {
	e := newFakeEngine()
	content := pattern(1 << 20)
	entry := e.file("by-hash/f", content)
	entry.ID.Shard[0] = 1
	entry.Path = "by-sha256/" + strings.Repeat("ab", 32)
	m := mountFake(t, claimTree{newFakeTree(entry)}, e, Options{})
	open := func() *os.File {
		f, err := os.Open(m.path(entry.Path))
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil { // no readahead
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	read := func(f *os.File, off int64) (reads int64, err error) {
		before := m.s.files.counters.reads.Load()
		_, err = f.ReadAt(make([]byte, 512<<10), off)
		return m.s.files.counters.reads.Load() - before, err
	}
	first := open()
	if n, err := read(first, 0); n == 0 || err != nil {
		t.Errorf("the first half: %d reads, %v", n, err)
	}
	second := open()
	if n, err := read(second, 0); n != 0 || err != nil {
		t.Errorf("the first half again: %d reads, %v; want none", n, err)
	}
	if _, err := read(second, 512<<10); !errors.Is(err, unix.EIO) {
		t.Errorf("the second half: %v, want EIO", err)
	}
}

// The SHA-256 of an entry of a source without proofs is no attribute before a whole read proves it.
func TestClaimIsNoAttribute(t *testing.T) {
	e := newFakeEngine()
	e.unproven = true
	content := pattern(5 << 20)
	f := e.file("f", content)
	sum, claim := sha256.Sum256(content), [32]byte{1}
	f.SHA256 = &claim
	m := mountFake(t, newFakeTree(f), e, Options{})
	value := make([]byte, 64)
	if _, err := unix.Getxattr(m.path("f"), xattrSHA256, value); err != unix.ENODATA {
		t.Errorf("%s before a whole read: %v", xattrSHA256, err)
	}
	e.ProveSHA256(f.ID.File, sum)
	if _, err := unix.Getxattr(m.path("f"), xattrSHA256, value); string(value) != hex.EncodeToString(sum[:]) {
		t.Errorf("%s is %s, %v, want %x", xattrSHA256, value, err, sum)
	}
}

// A descriptor that has read a whole file returns no page of it after another read or open has found its
// SHA-256 wrong.
func TestFalseSHA256DropsPages(t *testing.T) {
	for name, find := range map[string]func(path string, other *os.File) error{
		"open": func(path string, _ *os.File) error {
			_, err := os.Open(path)
			return err
		},
		"read": func(_ string, other *os.File) error {
			_, err := other.ReadAt(make([]byte, 1), 4<<20)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine()
			e.unproven = true
			f := e.file("f", pattern(5<<20))
			f.SHA256 = &[32]byte{1}
			m := mountFake(t, newFakeTree(f), e, Options{})
			file, err := os.Open(m.path("f"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_RANDOM); err != nil { // no readahead
				t.Fatal(err)
			}
			p := make([]byte, 4096)
			if _, err := file.ReadAt(p, 0); err != nil {
				t.Fatal(err)
			}
			e.ProveSHA256(f.ID.File, [32]byte{2})
			if err := find(m.path("f"), file); !errors.Is(err, unix.EIO) {
				t.Errorf("the SHA-256 is wrong: %v", err)
			}
			m.awaitNotices()
			if _, err := file.ReadAt(p, 0); !errors.Is(err, unix.EIO) {
				t.Errorf("a read of bytes that were read before: %v", err)
			}
		})
	}
}

// Programs that announce sequential reads get more readahead, whose reads end in any order. They see the error
// of a false name.
func TestFalseClaimReadAhead(t *testing.T) {
	e := newFakeEngine()
	entry := e.file("by-hash/f", pattern(64<<20))
	entry.ID.Shard[0] = 1
	entry.Path = "by-sha256/" + strings.Repeat("ab", 32)
	m := mountFake(t, claimTree{newFakeTree(entry)}, e, Options{})
	out, err := exec.Command("cat", m.path(entry.Path)).CombinedOutput() // it calls posix_fadvise
	if err == nil || !bytes.HasSuffix(out, []byte("Input/output error\n")) {
		t.Errorf("cat: %v, %d bytes", err, len(out))
	}
}
