package verify

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

const recordSize = 48 // bytes of every record in a shard

// lookThrough reads from a shard the sizes of its files and the xorbs that keyed hashes cover.
// The check of the xorbs needs both. Damage is reported later.
func (v *verifier) lookThrough(ctx context.Context, f Object) {
	if v.Remote != nil && !v.Bar.Visible() && !v.isKeyed(ctx, f) {
		return // the shard is fetched only once, later
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
	if v.Bar.Visible() { // else it is not worth the reading
		for head, err := range s.Heads() {
			if err == nil {
				v.Bar.Expect(head.Size)
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

// isKeyed reports whether a remote shard has keyed hashes. It reads the two ends of the shard.
func (v *verifier) isKeyed(ctx context.Context, f Object) bool {
	s, err := shard.NewReader(origin.ReaderAt(ctx, v.Store, names.ShardKey(f.Hash)), f.Size)
	return err == nil && s.Meta().Keyed
}

// A shardCheck is the check of one shard.
type shardCheck struct {
	v     *verifier
	f     Object
	meta  shard.Meta
	sums  struct{ files, unpacked, packed uint64 }
	whole bool // every block could be read, so the sums are right
}

// checkShard checks one copy of a shard, alone and against the xorbs. It passes each file to
// check, and the shard to then.
func (v *verifier) checkShard(ctx context.Context, f Object, check func(context.Context, fileJob), then func(*shard.Reader)) {
	c := shardCheck{v: v, f: f, whole: true}
	c.read(ctx, func(s *shard.Reader) {
		c.files(ctx, s, check)
		then(s)
		c.lists(s)
	})
}

// read reads the shard, compares its hash with its name and calls do. It reports whether the
// shard is readable.
func (c *shardCheck) read(ctx context.Context, do func(*shard.Reader)) bool {
	file, err := c.v.open(ctx, c.f)
	if err != nil {
		c.unreadable(ctx, err)
		return false
	}
	defer file.close()
	r, err := c.load(file)
	if err != nil {
		c.unreadable(ctx, err)
		return false
	}
	name, err := merkle.ReadChunk(r, c.f.Size)
	if err != nil {
		c.unreadable(ctx, err)
		return false
	}
	c.v.report.Shard()
	if c.f.Named && name != c.f.Hash {
		c.fault(codec.Corrupt("shard", 0, "its bytes have the hash %s, its name says %s", name, c.f.Hash))
	}
	s, err := shard.NewReader(r, c.f.Size)
	if err != nil {
		c.fault(err)
		return false
	}
	c.meta = s.Meta()
	do(s)
	return true
}

// readLists reads the shard again and checks its lists.
func (c *shardCheck) readLists(ctx context.Context) {
	file, err := c.v.open(ctx, c.f)
	if err != nil {
		c.unreadable(ctx, err)
		return
	}
	defer file.close()
	file.bar = nil
	r, err := c.load(file)
	if err != nil {
		c.unreadable(ctx, err)
		return
	}
	s, err := shard.NewReader(r, c.f.Size)
	if err != nil {
		c.fault(err)
		return
	}
	c.lists(s)
}

// unreadable reports that the shard cannot be read, unless the check was canceled.
func (c *shardCheck) unreadable(ctx context.Context, err error) {
	if !ui.IsCanceled(ctx, err) {
		c.fault(err)
	}
}

// wholeShard is the size in bytes up to which a shard is read into memory. A larger shard is
// read twice: only a listing or a sparse file claims its size.
const wholeShard = 8 << 20

// load reads the whole shard, because its name is the hash of all bytes.
func (c *shardCheck) load(file io.ReaderAt) (io.ReaderAt, error) {
	if err := shard.CheckSize(c.f.Size); err != nil {
		return nil, err
	}
	if c.f.Size > wholeShard {
		return file, nil
	}
	b := make([]byte, c.f.Size)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, c.f.Size), b); err != nil {
		return nil, err
	}
	return bytes.NewReader(b), nil
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

// lists checks the CAS Info section against the xorbs, and everything behind it.
func (c *shardCheck) lists(s *shard.Reader) {
	end := c.blocks(s)
	c.faults(s.CheckTables())
	if c.whole && c.meta.Footer {
		c.totals()
		c.gaps(end)
	}
}

// blocks checks the CAS Info section and returns its end. Blocks have no offset of their own, so
// offsets are counted from the start of the section while all blocks are readable.
func (c *shardCheck) blocks(s *shard.Reader) (end int64) {
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

// gaps checks that only lookup tables are between the sections and the footer. Without the
// check, a table whose count was lost would go unnoticed.
func (c *shardCheck) gaps(end int64) {
	m := &c.meta
	tables := 12*m.FileTable.Count + 12*m.XorbTable.Count + 16*m.ChunkTable.Count
	if gap := uint64(m.FooterOffset-end) - tables; gap != 0 {
		c.fault(codec.Corrupt("shard footer", m.FooterOffset+32, "%d bytes before it are in no lookup table", gap))
	}
}

func (c *shardCheck) fault(err error) {
	c.v.report.Fault(Fault{Path: c.f.Path, Kind: "shard", Hash: c.f.Hash, Err: err})
}

// faults reports each error in err, which may join several.
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
