package origintest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// withoutHashes returns a copy of some chunks without hashes.
func (c *contract) withoutHashes(t testing.TB) *xorb.Run {
	t.Helper()
	stored := c.read(t, origin.ReadOptions{})
	run, err := xorb.ParseRun(bytes.Clone(stored.Packed), stored.Chunks, nil)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func (c *contract) annotate(t testing.TB) {
	x, r := c.someChunks()
	annotated, err := c.src.Annotate(t.Context(), x.Hash(), c.withoutHashes(t))
	if err != nil {
		t.Errorf("Annotate: %v", err)
		return
	}
	checkRun(t, x, r, annotated)
	if !slices.Equal(annotated.Hashes, c.read(t, origin.ReadOptions{}).Hashes) {
		t.Error("Annotate returns other hashes than Chunks")
	}
}

func (c *contract) annotateCopies(t testing.TB) {
	x, r := c.someChunks()
	run := c.withoutHashes(t)
	if _, err := c.src.Annotate(t.Context(), x.Hash(), run); err != nil {
		t.Errorf("Annotate: %v", err)
	}
	if run.Hashes != nil || run.Chunks != r {
		t.Error("Annotate changes the given run")
	}
}

// annotateRefuses gives chunks of one xorb to Annotate as those of others with known hashes.
func (c *contract) annotateRefuses(t testing.TB) {
	x, r := c.someChunks()
	src := c.open(c.b.Store())
	if !src.Proves() {
		wrong := proven(x, r)
		wrong.Leaves[1].Size++
		src.Prove([]origin.ChunkHashes{wrong})
		if got, err := src.Annotate(t.Context(), x.Hash(), c.withoutHashes(t)); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("Annotate of chunks of another size = %v, %v, want %v", got, err, codec.ErrCorrupt)
		}
		return
	}
	run := c.withoutHashes(t)
	for i, other := range c.b.Xorbs {
		if slices.Equal(other.Info.UnpackedEnd, x.Info.UnpackedEnd) {
			continue
		}
		if got, err := src.Annotate(t.Context(), other.Hash(), run); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("Annotate of chunks of xorb 0 as of xorb %d = %v, %v, want %v", i, got, err, codec.ErrCorrupt)
		}
	}
}

func (c *contract) hashed(t testing.TB) {
	x, r := c.someChunks()
	isKnown, err := c.src.Hashed(t.Context(), x.Hash(), r)
	if err != nil {
		t.Errorf("Hashed: %v", err)
	}
	if run := c.read(t, origin.ReadOptions{}); isKnown && len(run.Hashes) != r.Len() {
		t.Errorf("Hashed = true, but Chunks returns %d hashes of %d", len(run.Hashes), r.Len())
	}
}

func (c *contract) reject(t testing.TB) {
	x, r := c.someChunks()
	if n := c.src.Reject(codec.Hash{9}); n != 0 {
		t.Errorf("Reject of no xorb = %d, want 0", n)
	}
	if n := c.src.Reject(x.Hash()); n != 0 {
		t.Errorf("Reject of the only replica = %d, want 0", n)
	}
	checkRun(t, x, r, c.read(t, origin.ReadOptions{}))
}

// rejectNext reads a xorb with three replicas, the first of which is corrupt.
func (c *contract) rejectNext(t testing.TB) {
	x, r := c.someChunks()
	corrupt := c.b.Store()
	bad := bytes.Clone(x.Bytes)
	start, _ := x.Info.PackedRange(r)
	bad[start+20] ^= 1
	if err := Replace(corrupt, x.Key(), bad); err != nil {
		t.Fatal(err)
	}
	src := c.open(Copies(corrupt, c.b.Store(), c.b.Store()))
	b, err := Unpack(t, src, x.Hash(), r) // a Source may skip the corrupt replica itself
	if err == nil && !bytes.Equal(b, x.Unpacked(r)) {
		t.Error("corrupt chunks are read without an error")
	}
	switch n := src.Reject(x.Hash()); n {
	case 2:
	case 0:
		return // the store below src has one replica
	default:
		t.Errorf("Reject = %d, want 2", n)
	}
	if b, err = Unpack(t, src, x.Hash(), r); err != nil || !bytes.Equal(b, x.Unpacked(r)) {
		t.Errorf("Chunks after Reject: other bytes, or %v", err)
	}
}

// readOnly checks that results stay as they are during later calls.
func (c *contract) readOnly(t testing.TB) {
	x, r := c.someChunks()
	f := c.b.Files[0]
	run := c.read(t, origin.ReadOptions{})
	fi, err := c.src.FileInfo(t.Context(), f.ID())
	if err != nil {
		t.Fatal(err)
	}
	c.chunks(t)
	c.fileInfo(t)
	checkRun(t, x, r, run)
	if !slices.Equal(fi.Terms, f.Info.Terms) {
		t.Error("a later FileInfo changes the result of an earlier one")
	}
}

// canceled calls a new Source with a canceled context, and then again.
func (c *contract) canceled(t testing.TB) {
	src := c.open(c.b.Store())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f, x, first := c.b.Files[0], c.b.Xorbs[0], codec.ChunkRange{End: 1}
	for op, err := range map[string]error{
		"FileInfo": second(src.FileInfo(ctx, f.ID())),
		"Narrow":   third(src.Narrow(ctx, f.ID(), f.Info.Terms[0], codec.Piece{Size: 1})),
		"Chunks":   second(src.Chunks(ctx, x.Hash(), first, origin.ReadOptions{})),
	} {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v, want %v or nothing", op, err, context.Canceled)
		}
	}
	if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
		t.Errorf("FileInfo afterwards: %v", err)
	}
	if _, err := src.Chunks(t.Context(), x.Hash(), first, origin.ReadOptions{}); err != nil {
		t.Errorf("Chunks afterwards: %v", err)
	}
}

func third[T, U any](_ T, _ U, err error) error { return err }
