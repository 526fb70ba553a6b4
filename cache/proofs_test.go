package cache

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

// unproven returns a xorb behind a Plan.
func unproven(t testing.TB, sizes ...int) (xorbSource, *origintest.Plan) {
	t.Helper()
	x := store(t, false, sizes...)
	p := origintest.NewPlan(x.src, nil)
	p.Lengths = true
	return xorbSource{x.Xorb, p}, p
}

// changed is damage of one chunk in some of its answers, counted from 1.
func changed(chunk uint32, answers ...int64) origintest.Damage {
	var calls atomic.Int64
	return origintest.Damage{Chunk: func(_ codec.Hash, i uint32, content []byte) []byte {
		if i != chunk {
			return content
		}
		n := calls.Add(1)
		for _, a := range answers {
			if a == n {
				content = bytes.Clone(content)
				content[len(content)/2] ^= 1
			}
		}
		return content
	}}
}

// leaves are the true hashes and sizes of chunks.
func (s xorbSource) leaves(r codec.ChunkRange) origin.ChunkHashes {
	c := origin.ChunkHashes{Xorb: s.Hash(), Start: r.Start}
	for i := r.Start; i < r.End; i++ {
		c.Leaves = append(c.Leaves, merkle.Leaf{Hash: s.Info.Chunks[i], Size: uint64(len(s.Xorb.Chunks[i]))})
	}
	return c
}

// A chunk that is not proven is hashed before it reaches the disk, also if no reader has unpacked it.
func TestUnprovenChunksAreHashedBeforeDisk(t *testing.T) {
	for name, get := range map[string]func(t *testing.T, c *Cache, x codec.Hash) error{
		"readahead": func(t *testing.T, c *Cache, x codec.Hash) error {
			a := c.NewReadahead()
			defer a.Close()
			a.Prefetch(x, chunks(0, 10), 0)
			err := c.Read(t.Context(), x, chunks(2, 3), 0, make([]byte, 100))
			return err
		},
		"Download": func(t *testing.T, c *Cache, x codec.Hash) error {
			c.Download(t.Context(), x, chunks(0, 10)) //nolint:errcheck // one chunk does not unpack
			return nil
		},
		"Run": func(t *testing.T, c *Cache, x codec.Hash) error {
			run, err := c.Run(t.Context(), x, chunks(0, 10))
			if err == nil {
				run.Store()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			x, p := unproven(t, same(10, 20_000)...)
			p.SetDamage(origintest.Damage{Bytes: func(_ codec.Hash, r codec.ChunkRange, packed []byte) {
				if at := int64(x.Info.PackedEnd[6]) - int64(x.Info.PackedEnd[5]); r.Start == 0 && int64(len(packed)) > 6*at {
					start, _ := x.Info.PackedRange(chunks(7, 8)) // LZ4
					packed[start+8] ^= 0xff
				}
			}})
			m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: 32 << 20})
			if err := get(t, m.Cache, x.Hash()); err != nil {
				t.Fatal(err)
			}
			m.settle(t)
			if n := m.wantGood(t, x); n == 0 || n == 10 {
				t.Errorf("%d chunks are on disk", n)
			}
			for i, leaf := range m.Leaves(x.Hash(), chunks(0, 10)) {
				if stored := len(m.Missing(x.Hash(), chunks(i, i+1))) == 0; stored != (leaf.Hash == x.Info.Chunks[i]) {
					t.Errorf("chunk %d: on disk: %v, hash %s", i, stored, leaf.Hash)
				}
			}
		})
	}
}

// A second copy of a chunk that differs from the first one is damage of one of both. Both are
// dropped, and the reader gets a third one.
func TestUnprovenCopiesDiffer(t *testing.T) {
	for name, answers := range map[string][]int64{"the first": {1}, "the second": {2}} {
		t.Run(name, func(t *testing.T) {
			x, p := unproven(t, same(4, 30_000)...)
			p.SetDamage(changed(1, answers...))
			c := open(t, x.src, Options{MemoryBytes: noMemory})
			buf := make([]byte, 120_000)
			for range 2 {
				if err := c.Read(t.Context(), x.Hash(), chunks(0, 4), 0, buf); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(buf, x.Unpacked(chunks(0, 4))) {
				t.Error("the reader got other bytes")
			}
			if got := c.Leaves(x.Hash(), chunks(1, 2)); got[0].Hash != x.Info.Chunks[1] {
				t.Errorf("the hash of the chunk is %s", got[0].Hash)
			}
			if calls, _ := p.Requests(); calls != 3 {
				t.Errorf("%d requests, want 3", calls)
			}
		})
	}
}

// DropUnproven drops chunks from memory and disk, and those that are in transfer or wait for the
// disk. Proven chunks stay.
func TestDropUnproven(t *testing.T) {
	x, p := unproven(t, same(10, 20_000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: 32 << 20})
	if err := m.Download(t.Context(), x.Hash(), chunks(0, 10)); err != nil {
		t.Fatal(err)
	}
	x.read(t, m.Cache, chunks(0, 10), 10, 1000) // into memory
	m.Prove([]origin.ChunkHashes{x.leaves(chunks(4, 6))})
	m.DropUnproven(x.Hash(), chunks(0, 10))
	for i, leaf := range m.Leaves(x.Hash(), chunks(0, 10)) {
		isProven, isAbsent := i == 4 || i == 5, len(m.Missing(x.Hash(), chunks(i, i+1))) > 0
		if isProven != (leaf.Hash != codec.Hash{}) || isProven == isAbsent {
			t.Errorf("chunk %d: hash %s, absent: %v", i, leaf.Hash, isAbsent)
		}
	}
	m.requested()
	x.read(t, m.Cache, chunks(0, 2), 10, 1000)
	if _, n := m.requested(); n == 0 {
		t.Error("a dropped chunk was read from memory")
	}
	x.read(t, m.Cache, chunks(4, 6), 10, 1000)
	m.wantRequested(t, "proven chunks", 0, 0)

	arrived, proceed := make(chan struct{}), make(chan struct{})
	p.Before = func(context.Context, codec.Hash, codec.ChunkRange) error {
		close(arrived)
		<-proceed
		return nil
	}
	done := make(chan error)
	go func() { done <- m.Read(t.Context(), x.Hash(), chunks(7, 9), 0, make([]byte, 40_000)) }()
	<-arrived
	m.DropUnproven(x.Hash(), chunks(0, 10))
	p.Before = nil
	close(proceed)
	if err := <-done; err != nil {
		t.Error(err)
	}
	m.settle(t)
	if len(m.Missing(x.Hash(), chunks(7, 9))) == 0 {
		t.Error("chunks that were in transfer at the drop reached the disk")
	}
}

// A download whose chunks are dropped before they are stored fails as corrupt. Its caller repeats it.
func TestDownloadOfDroppedChunks(t *testing.T) {
	x, p := unproven(t, 1000, 1000)
	c := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: 32 << 20}).Cache
	var calls atomic.Int64
	p.Before = func(_ context.Context, x codec.Hash, r codec.ChunkRange) error {
		if calls.Add(1) == 1 {
			c.DropUnproven(x, r)
		}
		return nil
	}
	err := c.Download(t.Context(), x.Hash(), chunks(0, 2))
	if !errors.Is(err, codec.ErrCorrupt) || !c.ShouldRetry(x.Hash(), err, 1) {
		t.Errorf("the first download: %v", err)
	}
	if err := c.Download(t.Context(), x.Hash(), chunks(0, 2)); err != nil || len(c.Missing(x.Hash(), chunks(0, 2))) > 0 {
		t.Errorf("the second download: %v", err)
	}
}

// Copies on disk of a proven chunk are compared with its hash. Prove drops others.
func TestProvenChunksOnDisk(t *testing.T) {
	x, p := unproven(t, same(4, 20_000)...)
	dir := t.TempDir()
	p.SetDamage(changed(1, 1))
	m := mountOn(t, dir, x.src, Options{MemoryBytes: 32 << 20})
	if err := m.Download(t.Context(), x.Hash(), chunks(0, 4)); err != nil {
		t.Fatal(err)
	}
	m.close(t)
	m = mountOn(t, dir, x.src, Options{MemoryBytes: 32 << 20})
	m.Prove([]origin.ChunkHashes{x.leaves(chunks(0, 4))})
	x.read(t, m.Cache, chunks(0, 4), 0, 80_000) // the wrong copy on disk is replaced
	m.settle(t)
	if n := m.wantGood(t, x); n != 4 {
		t.Errorf("%d good chunks are on disk", n)
	}
	other := x.leaves(chunks(2, 3))
	other.Leaves[0].Hash[0] ^= 1
	m.Prove([]origin.ChunkHashes{other})
	if len(m.Missing(x.Hash(), chunks(2, 3))) == 0 {
		t.Error("a copy that contradicts a new proof stays on disk")
	}
	if err := x.try(t.Context(), m.Cache, chunks(2, 3), 0, 20_000); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a chunk with another proven hash: %v", err)
	}
	m.Prove([]origin.ChunkHashes{{Xorb: x.Hash(), Start: 2, Leaves: make([]merkle.Leaf, 1)}})
	x.read(t, m.Cache, chunks(2, 3), 0, 20_000)
}

// NoVerify has no effect on chunks that are not proven: their hashes are needed.
func TestUnprovenNoVerify(t *testing.T) {
	x, _ := unproven(t, same(4, 20_000)...)
	c := open(t, x.src, Options{NoVerify: true})
	leaves := make([]merkle.Leaf, 4)
	if err := c.ReadLeaves(t.Context(), x.Hash(), chunks(0, 4), 25_000, make([]byte, 20_000), leaves); err != nil {
		t.Fatal(err)
	}
	for i, leaf := range leaves {
		want := merkle.Leaf{Size: 20_000}
		if i == 1 || i == 2 {
			want.Hash = x.Info.Chunks[i]
		}
		if leaf != want {
			t.Errorf("leaf %d = %v, want %v", i, leaf, want)
		}
	}
}

// Refetch requests chunks that are on disk, and compares them with nothing.
func TestRefetch(t *testing.T) {
	x, _ := unproven(t, same(4, 20_000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: 32 << 20})
	wrong := x.leaves(chunks(0, 4))
	wrong.Leaves[3].Hash[0] ^= 1
	m.Prove([]origin.ChunkHashes{wrong})
	run, err := m.Refetch(t.Context(), x.Hash(), chunks(0, 4))
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 20_000)
	for i := range uint32(4) {
		if h, err := run.Unpack(i, buf); err != nil || h != x.Info.Chunks[i] {
			t.Errorf("chunk %d: %s, %v", i, h, err)
		}
	}
	if err := m.disk.Flush(t.Context()); err != nil || len(m.Missing(x.Hash(), chunks(0, 4))) > 0 {
		t.Errorf("chunks are not stored, %v", err)
	}
	m.wantRequested(t, "Refetch", 1, 4)
}

// The copies of an earlier process leave the disk, also if a reader has seen the first new chunks before the
// others arrive.
func TestUnknownChunksAreReplacedAfterPart(t *testing.T) {
	x, p := unproven(t, same(10, 20_000)...)
	dir, whole := t.TempDir(), make([]byte, 200_000)
	p.SetDamage(changed(0, 1))
	m := mountOn(t, dir, x.src, Options{MemoryBytes: 32 << 20})
	if err := m.Read(t.Context(), x.Hash(), chunks(0, 10), 0, whole); err != nil {
		t.Fatal(err)
	}
	m.settle(t)
	m.close(t)
	goOn := make(chan struct{})
	m = mountOn(t, dir, halfSource{p, goOn}, Options{MemoryBytes: 32 << 20})
	a := m.NewReadahead()
	defer a.Close()
	a.Prefetch(x.Hash(), chunks(0, 10), 0)
	x.read(t, m.Cache, chunks(0, 1), 0, 20_000)
	close(goOn)
	x.read(t, m.Cache, chunks(1, 10), 0, 180_000)
	m.settle(t)
	if n := m.wantGood(t, x); n != 10 {
		t.Errorf("%d chunks are on disk, want 10", n)
	}
}

// A halfSource delivers the first half of the chunks, and the others after goOn.
type halfSource struct {
	origin.Source
	goOn <-chan struct{}
}

func (s halfSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	run, err := s.Source.Chunks(ctx, x, r, o)
	if err == nil && r.Len() > 1 {
		o.OnPartial(run.Slice(codec.ChunkRange{Start: r.Start, End: r.Start + uint32(r.Len()/2)}))
		<-s.goOn
	}
	return run, err
}

// Unknown chunks on disk stay there if their new copies cannot be stored. Later reads get them from disk, since
// the new copies have shown their hashes. A wrong copy there is found by its hash.
func TestUnknownChunksStayOnDisk(t *testing.T) {
	for name, o := range map[string]struct {
		share     bool // the disk of another process
		queueFull bool
		busy      bool // the disk accepts no put
		wrong     bool // a chunk on disk is wrong
	}{
		"shared":            {share: true},
		"shared, wrong":     {share: true, wrong: true},
		"full queue":        {queueFull: true},
		"full queue, wrong": {queueFull: true, wrong: true},
		"busy":              {busy: true},
		"busy, wrong":       {busy: true, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			x, p := unproven(t, same(10, 20_000)...)
			if o.wrong {
				p.SetDamage(changed(3, 1))
			}
			dir := t.TempDir()
			owner := mountOn(t, dir, x.src, Options{MemoryBytes: noMemory})
			if err := x.try(t.Context(), owner.Cache, chunks(0, 10), 0, 200_000); (err != nil) != o.wrong {
				t.Fatal(err)
			}
			owner.settle(t)
			if !o.share {
				owner.close(t)
			}
			d := openDisk(t, dir, disk.Options{Share: o.share, QueueBytes: 100_000})
			m := &mount{disk: d, src: hook(x.src, nil)}
			m.Cache = open(t, m.src, Options{MemoryBytes: noMemory, Disk: d})
			if d.Shared() != o.share {
				t.Fatalf("shared: %v", d.Shared())
			}
			setQueued := func(n int64) {
				m.fetches.mu.Lock()
				defer m.fetches.mu.Unlock()
				m.fetches.writes.bytes = n
			}
			if o.queueFull {
				setQueued(m.fetches.writes.maxBytes)
				defer setQueued(0)
			}
			if o.busy {
				m.stall(t)
				other := store(t, false, same(5, 20_000)...)
				if err := d.PutRunNoCopy(other.Hash(), other.forge(t, chunks(0, 5)), func() {}); err != nil {
					t.Fatal(err)
				}
				m.fetches.writes.cancelDrain()
			}
			for _, requests := range []int64{1, 0, 0} {
				x.read(t, m.Cache, chunks(0, 10), 0, 200_000)
				m.fetches.running.Wait()
				if o.wrong {
					continue
				}
				m.wantRequested(t, "read", requests, 10*requests)
				if gaps := m.Missing(x.Hash(), chunks(0, 10)); len(gaps) > 0 {
					t.Errorf("chunks %v are not on disk any more", gaps)
				}
			}
		})
	}
}

// An unknown chunk on disk stays there if a RunKnown has a new copy that the disk does not accept.
func TestRunKnownOfBusyDisk(t *testing.T) {
	x, _ := unproven(t, same(10, 20_000)...)
	dir := t.TempDir()
	m := mountOn(t, dir, x.src, Options{MemoryBytes: noMemory})
	x.read(t, m.Cache, chunks(0, 10), 0, 200_000)
	m.settle(t)
	m.close(t)
	m = mountOn(t, dir, x.src, Options{MemoryBytes: noMemory})
	run, err := m.RunKnown(t.Context(), x.Hash(), chunks(0, 10))
	if err != nil {
		t.Fatal(err)
	}
	m.stall(t)
	for i := range uint32(10) {
		if _, err := run.Unpack(i, make([]byte, 20_000)); err != nil {
			t.Error(err)
		}
	}
	m.wantRequested(t, "RunKnown", 1, 10)
	if gaps := m.Missing(x.Hash(), chunks(0, 10)); len(gaps) > 0 {
		t.Errorf("chunks %v are not on disk any more", gaps)
	}
}

// The chunks of a Refetch replace no copy on disk, because nothing has proven them.
func TestRefetchReplacesNothing(t *testing.T) {
	x, p := unproven(t, same(4, 20_000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
	x.read(t, m.Cache, chunks(0, 2), 0, 40_000)
	m.settle(t)
	p.SetDamage(changed(1, 1))
	run, err := m.Refetch(t.Context(), x.Hash(), chunks(0, 4))
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(4) {
		if _, err := run.Unpack(i, make([]byte, 20_000)); err != nil {
			t.Error(err)
		}
	}
	m.settle(t)
	if n := m.wantGood(t, x); n != 4 {
		t.Errorf("%d good chunks are on disk, want 4", n)
	}
}

// The hash of an unknown chunk that a Run has unpacked is for proofs alone. Reads request the chunk until the
// file is proven, also if the Run is stored after the disk has evicted the chunk.
func TestRunLeavesChunksUnknown(t *testing.T) {
	for name, after := range map[string]func(m *mount, run *Run){
		"unpacked": func(*mount, *Run) {},
		"stored": func(m *mount, run *Run) {
			m.disk.Drop(run.xorb, chunks(0, 10))
			run.Store()
		},
	} {
		t.Run(name, func(t *testing.T) {
			x, _ := unproven(t, same(20, 20_000)...)
			dir := t.TempDir()
			m := mountOn(t, dir, x.src, Options{MemoryBytes: 32 << 20})
			x.read(t, m.Cache, chunks(0, 10), 0, 200_000)
			m.settle(t)
			m.close(t)
			m = mountOn(t, dir, x.src, Options{MemoryBytes: 32 << 20})
			run, err := m.Run(t.Context(), x.Hash(), chunks(0, 20))
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint32(10) {
				if h, err := run.Unpack(i, make([]byte, 20_000)); err != nil || h != x.Info.Chunks[i] {
					t.Errorf("chunk %d: %s, %v", i, h, err)
				}
			}
			after(m, run)
			m.settle(t)
			m.wantRequested(t, "Run", 1, 10)
			if got := m.Leaves(x.Hash(), chunks(0, 10)); !slices.Equal(got, x.leaves(chunks(0, 10)).Leaves) {
				t.Errorf("leaves = %v", got)
			}
			if got := m.MissingForReads(x.Hash(), chunks(0, 10)); len(got) != 1 || got[0] != chunks(0, 10) {
				t.Errorf("reads request %v, want all chunks from disk", got)
			}
			x.read(t, m.Cache, chunks(0, 5), 0, 100_000)
			m.wantRequested(t, "read", 1, 5)
			m.Prove([]origin.ChunkHashes{x.leaves(chunks(0, 10))})
			x.read(t, m.Cache, chunks(0, 5), 0, 100_000)
			m.wantRequested(t, "read of proven chunks", 0, 0)
		})
	}
}

// RunKnown requests unknown chunks, and replaces their copies on disk.
func TestRunKnown(t *testing.T) {
	x, p := unproven(t, same(20, 20_000)...)
	dir := t.TempDir()
	p.SetDamage(changed(3, 1))
	m := mountOn(t, dir, x.src, Options{MemoryBytes: noMemory})
	if err := m.Read(t.Context(), x.Hash(), chunks(0, 10), 0, make([]byte, 200_000)); err != nil {
		t.Fatal(err)
	}
	m.settle(t)
	m.close(t)
	m = mountOn(t, dir, x.src, Options{MemoryBytes: noMemory})
	for _, requests := range []int64{1, 0} {
		run, err := m.RunKnown(t.Context(), x.Hash(), chunks(0, 20))
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint32(20) {
			if h, err := run.Unpack(i, make([]byte, 20_000)); err != nil || h != x.Info.Chunks[i] {
				t.Errorf("chunk %d: %s, %v", i, h, err)
			}
		}
		m.settle(t)
		m.wantRequested(t, "RunKnown", requests, 20*requests)
		if n := m.wantGood(t, x); n != 20 {
			t.Errorf("%d chunks are on disk", n)
		}
	}
}
