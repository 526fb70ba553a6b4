package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"sync/atomic"
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
			if n := m.s.files.claimBytes.Load(); n != 0 && o.Stateless == false {
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

// A claim is complete when reads in any order have covered the file, and not before.
func TestClaimOrder(t *testing.T) {
	b := pattern(1000)
	type read struct{ off, end int64 }
	tests := []struct {
		name     string
		reads    []read
		complete int // index of the read that completes it; -1: none
	}{
		{"in order", []read{{0, 400}, {400, 1000}}, 1},
		{"readahead is first", []read{{400, 1000}, {0, 400}}, 1},
		{"backwards", []read{{800, 1000}, {600, 800}, {200, 600}, {0, 200}}, 3},
		{"overlapping", []read{{0, 400}, {300, 500}, {0, 100}, {499, 1000}}, 3},
		{"overlapping and early", []read{{300, 500}, {300, 400}, {499, 1000}, {0, 300}}, 3},
		{"a hole", []read{{0, 400}, {500, 1000}}, -1},
		{"twice", []read{{0, 1000}, {0, 1000}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c claim
			var held atomic.Int64
			done := -1
			for i, r := range tt.reads {
				sum, complete := c.add(b[r.off:r.end], r.off, 1000, &held)
				if complete && (done >= 0 || sum != sha256.Sum256(b)) {
					t.Errorf("read %d: complete with %x, or again", i, sum)
				}
				if complete {
					done = i
				}
			}
			if done != tt.complete {
				t.Errorf("read %d completes it, want %d", done, tt.complete)
			}
			if c.close(&held); held.Load() != 0 {
				t.Errorf("%d bytes are held after close", held.Load())
			}
		})
	}
	var c claim
	var held atomic.Int64
	held.Store(maxClaimBytes)
	if c.add(b[1:], 1, 1000, &held); len(c.ahead) > 0 || held.Load() != maxClaimBytes {
		t.Errorf("%d reads are held without room", len(c.ahead))
	}
}
