package verify

import (
	"context"
	"io"
	"path"
	"regexp"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// xorbFacts are facts about a xorb that the lists of shards are compared with. The hash of a
// xorb proves most of a list; the facts cover the rest.
type xorbFacts struct {
	sound    bool           // at least one copy is; the rest is empty if none is
	packed   map[int64]bool // sizes of all copies, with and without footer
	unpacked int64
	info     *xorb.Info // of a xorb that a keyed shard lists; else nil
}

// checkXorb checks one copy of a xorb.
func (v *verifier) checkXorb(ctx context.Context, f Object) {
	r, err := v.open(ctx, f)
	if err != nil {
		v.report.Fault(Fault{Path: f.Path, Kind: "xorb", Hash: f.Hash, Err: err})
		return
	}
	defer r.close()
	v.judge(ctx, f, examine(r, f, v.proven.take(f.Hash)))
}

// A xorbReport is the result of the check of one copy of a xorb.
type xorbReport struct {
	in     *xorb.Info
	faults []error // what is wrong in it
	name   error   // that it is another one than its name says
	err    error   // why it could not be read
}

// sound reports whether the copy has no fault.
func (x *xorbReport) sound() bool { return len(x.faults) == 0 && x.name == nil && x.err == nil }

// examine checks a copy of a xorb alone, without the bytes of proven chunks.
func examine(r io.ReaderAt, f Object, proven func(chunk int) bool) (x xorbReport) {
	found := func(err error) { x.faults = append(x.faults, err) }
	if x.in, x.err = xorb.CheckRest(r, f.Size, proven, found); x.err != nil || len(x.faults) > 0 {
		return x // its own hash would tell the same again
	}
	if named := hashInName(f.Path); named != "" && named != x.in.Root().String() {
		x.name = codec.Corrupt("xorb", 0, "its chunks make xorb %s, its name says %s", x.in.Root(), named)
	}
	return x
}

// judge reports the result of one copy and records it for the lists of shards.
func (v *verifier) judge(ctx context.Context, f Object, x xorbReport) {
	if x.err != nil && ui.IsCanceled(ctx, x.err) {
		return
	}
	found := func(err error) {
		v.report.Fault(Fault{Path: f.Path, Kind: "xorb", Hash: f.Hash, Err: err})
	}
	for _, err := range x.faults {
		found(err)
	}
	if x.err != nil {
		found(x.err)
		return
	}
	v.report.Xorb(x.in.Len())
	switch {
	case len(x.faults) > 0:
		v.facts(f.Hash) // the xorb exists, but is corrupt
		return
	case x.name != nil:
		found(x.name)
		return
	case hashInName(f.Path) == "" && x.in.Footer == xorb.NoFooter:
		v.doubt(x.in.Root(), f.Path)
	}
	v.noteXorb(x.in.Root(), f.Size, x.in)
}

// noteXorb records the facts that lists of shards will be compared with.
func (v *verifier) noteXorb(root codec.Hash, size int64, in *xorb.Info) {
	all := codec.ChunkRange{End: uint32(in.Len())}
	_, packed := in.PackedRange(all)
	_, unpacked := in.UnpackedRange(all)
	facts := v.facts(root)
	v.mu.Lock()
	defer v.mu.Unlock()
	facts.sound, facts.unpacked = true, unpacked
	facts.packed[size], facts.packed[packed] = true, true
	if v.keyed[root] {
		facts.info = in
	}
}

// facts returns the facts of a xorb that exists.
func (v *verifier) facts(x codec.Hash) *xorbFacts {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.xorbs[x] == nil {
		v.xorbs[x] = &xorbFacts{packed: map[int64]bool{}}
	}
	return v.xorbs[x]
}

// checkList compares the CAS Info block of a shard, at offset off, with the xorb. A block whose
// chunks make the hash of the xorb has the right chunks.
func (v *verifier) checkList(x *shard.XorbInfo, m shard.Meta, off int64) error {
	v.mu.Lock()
	facts := v.xorbs[x.Xorb]
	v.mu.Unlock()
	v.vouch(x.Xorb)
	if !m.Keyed {
		if root := rootOf(x); root != x.Xorb {
			return codec.Corrupt("CAS info block", off, "its chunks make xorb %s", root)
		}
	}
	if facts == nil {
		v.report.Absent(x.Xorb)
		return nil
	}
	switch {
	case !facts.sound:
		return nil
	case int64(x.Unpacked) != facts.unpacked:
		return codec.Corrupt("CAS info block", off, "says %d bytes unpacked, the xorb has %d", x.Unpacked, facts.unpacked)
	case x.Packed != 0 && !facts.packed[int64(x.Packed)]:
		return codec.Corrupt("CAS info block", off, "says %d bytes packed, the xorb has another size", x.Packed)
	case m.Keyed:
		return compareKeyed(x, facts.info, m.Key, off)
	}
	return nil
}

func rootOf(x *shard.XorbInfo) codec.Hash {
	leaves := make([]merkle.Leaf, len(x.Chunks))
	for i, c := range x.Chunks {
		leaves[i] = merkle.Leaf{Hash: c.Hash, Size: uint64(c.Size)}
	}
	return merkle.Xorb(leaves)
}

// compareKeyed compares the keyed hashes of a block with the chunks of the xorb.
func compareKeyed(x *shard.XorbInfo, in *xorb.Info, key [32]byte, off int64) error {
	if len(x.Chunks) != in.Len() {
		return codec.Corrupt("CAS info block", off, "lists %d chunks, the xorb has %d", len(x.Chunks), in.Len())
	}
	for i, c := range x.Chunks {
		_, end := in.UnpackedRange(codec.ChunkRange{Start: uint32(i), End: uint32(i) + 1})
		if int64(c.Start)+int64(c.Size) != end {
			return codec.Corrupt("CAS info block", off, "chunk %d ends at byte %d, in the xorb at %d", i, c.Start+c.Size, end)
		}
		if want := merkle.Keyed(in.Chunks[i], key); c.Hash != want {
			return codec.Corrupt("CAS info block", off, "chunk %d has the keyed hash %s, that of the xorb gives %s", i, c.Hash, want)
		}
	}
	return nil
}

// doubt records a xorb that neither a footer nor its name identifies. Damage would only turn it
// into another xorb.
func (v *verifier) doubt(x codec.Hash, path string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unverifiable[x] = append(v.unverifiable[x], path)
}

// vouch records that a shard lists a xorb.
func (v *verifier) vouch(x codec.Hash) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.unverifiable, x)
}

var hexDigits = regexp.MustCompile(`(?:^|[^0-9a-f])([0-9a-f]{64})(?:[^0-9a-f]|$)`)

// hashInName returns the 64 digits in the name of a file, or "".
func hashInName(p string) string {
	m := hexDigits.FindStringSubmatch(path.Base(p))
	if m == nil {
		return ""
	}
	return m[1]
}
