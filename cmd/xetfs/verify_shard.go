package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

const recordSize = 48 // bytes of every record in a shard

// lookThrough learns from a shard what has to be known before the xorbs are checked:
// how many bytes its files have, and which xorbs must be compared with keyed hashes.
// Damage is found later.
func (v *verifier) lookThrough(ctx context.Context, f dir.File) {
	if v.place.held != nil && !v.bar.Visible() && !v.isKeyed(ctx, f) {
		return // nothing else is asked for: it comes once
	}
	file, err := v.open(ctx, f)
	if err != nil {
		return
	}
	defer file.close()
	file.bar = nil
	s, err := shard.NewReader(file, f.Size)
	if err != nil {
		return
	}
	if v.bar.Visible() { // else it is not worth the reading
		for head, err := range s.Heads() {
			if err == nil {
				v.bar.Expect(head.Size)
			}
		}
	}
	if !s.Meta().Keyed {
		return
	}
	for x, err := range s.Xorbs() {
		if err == nil {
			v.mu.Lock()
			v.keyed[x.Xorb] = true
			v.mu.Unlock()
		}
	}
}

// isKeyed says whether the hashes of a far shard are keyed, by its two ends.
func (v *verifier) isKeyed(ctx context.Context, f dir.File) bool {
	s, err := shard.NewReader(origin.ReaderAt(ctx, v.place.store, names.ShardKey(f.Hash)), f.Size)
	return err == nil && s.Meta().Keyed
}

// A shardCheck is one shard being checked.
type shardCheck struct {
	v     *verifier
	f     dir.File
	meta  shard.Meta
	sums  struct{ files, unpacked, packed uint64 }
	whole bool // every block could be read, so the sums are right
}

// checkShard checks one copy of a shard by itself and against the xorbs, and hands its
// files to check. When it has, it calls then.
func (v *verifier) checkShard(ctx context.Context, f dir.File, check func(context.Context, fileJob), then func(*shard.Reader)) {
	c := shardCheck{v: v, f: f, whole: true}
	file, err := v.open(ctx, f)
	if err != nil {
		c.unreadable(ctx, err)
		return
	}
	defer file.close()
	r, name, err := c.read(file)
	if err != nil {
		c.unreadable(ctx, err)
		return
	}
	v.report.shard()
	if f.Named && name != f.Hash {
		c.fault(codec.Corrupt("shard", 0, "its bytes have the hash %s, its name says %s", name, f.Hash))
	}
	s, err := shard.NewReader(r, f.Size)
	if err != nil {
		c.fault(err)
		return
	}
	c.meta = s.Meta()
	c.files(ctx, s, check)
	then(s)
	end := c.lists(s)
	c.faults(s.CheckTables())
	if c.whole && c.meta.Footer {
		c.totals()
		c.gaps(end)
	}
}

// unreadable reports that the shard cannot be read, unless the user gave up.
func (c *shardCheck) unreadable(ctx context.Context, err error) {
	if !ui.IsCanceled(ctx, err) {
		c.fault(err)
	}
}

// wholeShard is the largest shard that is read into memory. Of a larger one every byte is
// read twice: its size is what a sparse file or a listing says.
const wholeShard = 8 << 20

// read hashes the whole shard, since its name is the hash of all its bytes. It returns a
// reader of it and the hash.
func (c *shardCheck) read(file io.ReaderAt) (io.ReaderAt, codec.Hash, error) {
	if err := shard.CheckSize(c.f.Size); err != nil {
		return nil, codec.Hash{}, err
	}
	if c.f.Size <= wholeShard {
		b := make([]byte, c.f.Size)
		if _, err := io.ReadFull(io.NewSectionReader(file, 0, c.f.Size), b); err != nil {
			return nil, codec.Hash{}, err
		}
		file = bytes.NewReader(b)
	}
	name, err := merkle.ReadChunk(file, c.f.Size)
	return file, name, err
}

// files goes through the File Info section.
func (c *shardCheck) files(ctx context.Context, s *shard.Reader, check func(context.Context, fileJob)) {
	for fi, err := range s.Files() {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.whole = false
			c.fault(err)
			continue
		}
		c.sums.files += uint64(fi.Size())
		for i := range fi.Terms {
			c.v.vouch(fi.Terms[i].Xorb)
		}
		check(ctx, fileJob{path: c.f.Path, info: fi})
	}
}

// lists goes through the CAS Info section. A block names no place of its own, so it is
// counted from where the section begins, as long as all blocks could be read. lists
// returns where the section ends.
func (c *shardCheck) lists(s *shard.Reader) (end int64) {
	off := c.meta.XorbInfoOffset
	for x, err := range s.Xorbs() {
		if err != nil {
			c.whole = false
			c.fault(err)
			continue
		}
		c.sums.unpacked += uint64(x.Unpacked)
		c.sums.packed += uint64(x.Packed)
		if err := c.v.checkList(x, c.meta, off); err != nil {
			c.fault(fmt.Errorf("xorb %s: %w", x.Xorb, err))
		}
		off += recordSize * int64(1+len(x.Chunks))
	}
	return off + recordSize // the bookend
}

// totals compares the sums in the footer. Some writers leave them zero.
func (c *shardCheck) totals() {
	for _, t := range []struct {
		what  string
		off   int64
		is    uint64
		wants uint64
	}{
		{"packed bytes of the xorbs", 168, c.meta.PackedBytes, c.sums.packed},
		{"bytes of the files", 176, c.meta.FileBytes, c.sums.files},
		{"unpacked bytes of the xorbs", 184, c.meta.UnpackedBytes, c.sums.unpacked},
	} {
		if t.is != 0 && t.is != t.wants {
			c.fault(codec.Corrupt("shard footer", c.meta.FooterOffset+t.off, "says %d %s, they are %d", t.is, t.what, t.wants))
		}
	}
}

// gaps checks that nothing but lookup tables stands between the sections and the footer:
// a table whose count was lost would not be missed otherwise.
func (c *shardCheck) gaps(end int64) {
	m := &c.meta
	tables := 12*m.FileTable.Count + 12*m.XorbTable.Count + 16*m.ChunkTable.Count
	if gap := uint64(m.FooterOffset-end) - tables; gap != 0 {
		c.fault(codec.Corrupt("shard footer", m.FooterOffset+32, "%d bytes before it are in no lookup table", gap))
	}
}

func (c *shardCheck) fault(err error) {
	c.v.report.fault(fault{path: c.f.Path, kind: "shard", hash: c.f.Hash, err: err})
}

// faults is fault for an error that may be several.
func (c *shardCheck) faults(err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // taken apart, not looked for
		for _, err := range several.Unwrap() {
			c.faults(err)
		}
		return
	}
	if err != nil {
		c.fault(err)
	}
}
