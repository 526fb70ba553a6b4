package origintest

import (
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// described returns a new Source that has returned the File Infos of all files. Without proofs, a
// source finds chunks only through the plan of a file.
func (c *contract) described(t testing.TB) origin.Source {
	t.Helper()
	src := c.open(c.b.Store())
	for _, f := range c.b.Files {
		if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
	}
	return src
}

// proves checks that a source that proves returns all hashes, and that one that does not returns
// only those that were given to Prove.
func (c *contract) proves(t testing.TB) {
	src := c.described(t)
	x, r := c.someChunks()
	for range 2 {
		run, err := src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		known := run.Hashes != nil && slices.ContainsFunc(run.Hashes, func(h codec.Hash) bool { return h != codec.Hash{} })
		if src.Proves() != known {
			t.Errorf("Proves = %v, runs have hashes: %v", src.Proves(), known)
		}
	}
}

// proven returns the true hashes and sizes of chunks.
func proven(x *Xorb, r codec.ChunkRange) origin.ChunkHashes {
	c := origin.ChunkHashes{Xorb: x.Hash(), Start: r.Start}
	for i := r.Start; i < r.End; i++ {
		c.Leaves = append(c.Leaves, merkle.Leaf{Hash: x.Info.Chunks[i], Size: uint64(len(x.Chunks[i]))})
	}
	return c
}

// prove checks that runs carry the hashes that were stored with Prove, and no dropped ones.
func (c *contract) prove(t testing.TB) {
	src := c.described(t)
	x, r := c.someChunks()
	if src.Proves() {
		c.proveIgnored(t, src)
		return
	}
	all := proven(x, r)
	src.Prove([]origin.ChunkHashes{all})
	c.checkProven(t, src, all)
	dropped := codec.ChunkRange{Start: r.Start + 1, End: r.Start + 2}
	src.Prove([]origin.ChunkHashes{{Xorb: x.Hash(), Start: dropped.Start, Leaves: make([]merkle.Leaf, 1)}})
	all.Leaves[1] = merkle.Leaf{}
	c.checkProven(t, src, all)
}

// checkProven checks the results of a source for chunks with known hashes. A zero hash is unknown.
func (c *contract) checkProven(t testing.TB, src origin.Source, want origin.ChunkHashes) {
	t.Helper()
	r := want.Chunks()
	var hashes []codec.Hash
	for _, leaf := range want.Leaves {
		hashes = append(hashes, leaf.Hash)
	}
	run, err := src.Chunks(t.Context(), want.Xorb, r, origin.ReadOptions{})
	if err != nil || !slices.Equal(run.Hashes, hashes) {
		t.Errorf("Chunks after Prove: other hashes, or %v", err)
	}
	run, err = src.Annotate(t.Context(), want.Xorb, c.withoutHashes(t))
	if err != nil || !slices.Equal(run.Hashes, hashes) {
		t.Errorf("Annotate after Prove: other hashes, or %v", err)
	}
	if got := src.Proven(want.Xorb, r); !slices.Equal(got, want.Leaves) {
		t.Errorf("Proven = %v, want %v", got, want.Leaves)
	}
	known := !slices.Contains(hashes, codec.Hash{})
	if got, err := src.Hashed(t.Context(), want.Xorb, r); got != known || err != nil {
		t.Errorf("Hashed after Prove = %v, %v, want %v", got, err, known)
	}
}

// proveIgnored gives wrong hashes to a source that proves.
func (c *contract) proveIgnored(t testing.TB, src origin.Source) {
	x, r := c.someChunks()
	wrong := proven(x, r)
	wrong.Leaves[0].Hash[0] ^= 1
	src.Prove([]origin.ChunkHashes{wrong})
	run, err := src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, x, r, run)
	if got := src.Proven(x.Hash(), r); got != nil && !slices.Equal(got, proven(x, r).Leaves) {
		t.Errorf("Proven of a source that proves = %v", got)
	}
}

// contentHash checks that ContentHash returns a new hash and its sum, or neither.
func (c *contract) contentHash(t testing.TB) {
	for _, f := range c.b.Files {
		h, want, err := c.src.ContentHash(f.ID())
		if err != nil {
			t.Fatal(err)
		}
		if h == nil && want == nil {
			continue
		}
		if h == nil || len(want) != h.Size() {
			t.Errorf("ContentHash = %v and a sum of %d bytes", h, len(want))
			continue
		}
		h.Write(f.Bytes())
		if !slices.Equal(h.Sum(nil), want) {
			t.Error("ContentHash is not that of the content")
		}
		if again, _, err := c.src.ContentHash(f.ID()); err != nil || slices.Equal(again.Sum(nil), want) {
			t.Error("ContentHash returns one hash twice")
		}
	}
}

// hold opens a file between Hold and release, and after it.
func (c *contract) hold(t testing.TB) {
	id := c.b.Files[0].ID()
	release := c.src.Hold(id)
	other := c.src.Hold(id)
	other()
	c.fileInfo(t)
	release()
	c.fileInfo(t)
}
