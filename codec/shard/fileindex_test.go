package shard

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// manyTerms returns a file of n different terms.
func manyTerms(n int, verify bool) *FileInfo {
	f := &FileInfo{File: codec.Hash{1}, SHA256: [32]byte{9: 9}}
	for i := range n {
		start := uint32(i % 8000)
		f.Terms = append(f.Terms, codec.Term{Xorb: codec.Hash{2, byte(i)}, Size: uint32(i%100_000 + 1), Chunks: codec.ChunkRange{Start: start, End: start + 1}})
		if verify {
			f.Verify = append(f.Verify, codec.Hash{3, byte(i), byte(i >> 8)})
		}
	}
	return f
}

// The groups of a block are its terms, in one pass and at random.
func TestFileIndex(t *testing.T) {
	for _, n := range []int{0, 1, TermGroup - 1, TermGroup, TermGroup + 1, 10*TermGroup + 7} {
		for _, verify := range []bool{false, true} {
			want := manyTerms(n, verify)
			var w Writer
			w.AddFile(manyTerms(3, verify)) // precedes it or follows it
			want.File[0] = 7
			w.AddFile(want)
			b, err := w.Encode()
			if err != nil {
				t.Fatal(err)
			}
			r := bytes.NewReader(b)
			all, err := NewReader(r, int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			stored, err := all.FileInfo(want.File)
			if err != nil {
				t.Fatal(err)
			}
			if count, err := TermCount(r, stored.Block); err != nil || count != n {
				t.Errorf("TermCount = %d, %v, want %d", count, err, n)
			}
			var terms []codec.Term
			var hashes []codec.Hash
			x, err := IndexFile(r, r, stored.Block, func(group []codec.Term, verify []codec.Hash) error {
				terms, hashes = append(terms, group...), append(hashes, verify...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(terms, stored.Terms) || !slices.Equal(hashes, stored.Verify) || x.SHA256 != want.SHA256 || x.Size() != want.Size() || x.File != want.File {
				t.Errorf("%d terms, %t: the block is %d terms, %d hashes, %+v", n, verify, len(terms), len(hashes), x)
			}
			for i := x.Groups() - 1; i >= 0; i-- {
				group, err := x.Group(r, i)
				if err != nil || !slices.Equal(group, stored.Terms[i*TermGroup:min((i+1)*TermGroup, n)]) {
					t.Errorf("%d terms: group %d is %d terms, %v", n, i, len(group), err)
				}
			}
		}
	}
}

// Damage of a block is an error, also of one group after the block was read.
func TestFileIndexDamaged(t *testing.T) {
	var w Writer
	w.AddFile(manyTerms(3*TermGroup, false))
	b, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	x, err := IndexFile(bytes.NewReader(b), bytes.NewReader(b), recordSize, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if _, err := IndexFile(bytes.NewReader(b), bytes.NewReader(b), recordSize, func([]codec.Term, []codec.Hash) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("IndexFile = %v, want %v", err, stop)
	}
	size := recordSize*(2+TermGroup+5) + 36 // of a term in the second group
	b[size] ^= 1
	if _, err := x.Group(bytes.NewReader(b), 1); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a group with another size: %v, want %v", err, codec.ErrCorrupt)
	}
	if _, err := x.Group(bytes.NewReader(b), 0); err != nil {
		t.Errorf("the group before: %v", err)
	}
	b[size+4] = 0xff // its first chunk
	b[size+5] = 0xff
	if _, err := IndexFile(bytes.NewReader(b), bytes.NewReader(b), recordSize, nil); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("IndexFile = %v, want %v", err, codec.ErrCorrupt)
	}
	for _, cut := range []int{recordSize, 2 * recordSize, recordSize * (2 + TermGroup), recordSize*(2+2*TermGroup) + 1} {
		if _, err := IndexFile(bytes.NewReader(b[:cut]), bytes.NewReader(b[:cut]), recordSize, nil); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("a block of %d bytes: %v, want %v", cut, err, codec.ErrCorrupt)
		}
	}
}
