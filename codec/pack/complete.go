package pack

import (
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
)

// end completes a file: what is left of its new chunks joins what is left of others.
func (d *deduper) end(b *batch, f *file) {
	if d.new != nil {
		d.join(b, f)
	}
	f.id.File = merkle.File(d.leaves)
	f.chunks = len(d.leaves)
	if f.bad == nil {
		d.describe(f)
		b.ops = append(b.ops, op{kind: opFile, f: f})
		d.waiting++
	}
	d.choice = nil
	d.frag.reset()
	d.trim()
}

// The limits of the state that is reused for the next file: leaves of about 4 GiB, and xorbs.
const (
	maxLeaves = 1 << 16
	maxStored = 1 << 12
)

// trim forgets the state that only the closed file needed. A xorb that is found again gets
// another openXorb, which is not compared with the old one.
func (d *deduper) trim() {
	d.leaves = d.leaves[:0]
	if cap(d.leaves) > maxLeaves {
		d.leaves = nil
	}
	if len(d.stored) > maxStored {
		clear(d.stored)
	}
}

// join puts what is left of the new chunks of f behind what is left of others, or cuts
// the larger of the two.
func (d *deduper) join(b *batch, f *file) {
	x, left := d.new, d.left
	d.new = nil
	if d.fits(left.bytes+x.bytes, left.packed+x.packed, len(left.hashes)+len(x.hashes)) {
		d.append(b, f, x)
		return
	}
	if left.bytes > x.bytes {
		left, x = x, left
	}
	d.cut(b, x)
	d.left = left
}

// append puts an open xorb of f, whose terms alone point there, behind what is left.
func (d *deduper) append(b *batch, f *file, x *openXorb) {
	left, n := d.left, len(d.left.hashes)
	for i := range f.terms {
		if t := &f.terms[i]; t.first.xorb == x {
			t.first = location{left, t.first.index + uint32(n)}
		}
	}
	left.hashes = append(left.hashes, x.hashes...)
	left.sizes = append(left.sizes, x.sizes...)
	left.bytes += x.bytes
	left.packed += x.packed
	d.index.move(x, left, n)
	b.ops = append(b.ops, op{kind: opJoin, xorb: left, other: x})
}

// describe makes sure that a File Info block of f is stored, or will be.
func (d *deduper) describe(f *file) {
	if same := d.files[f.id.File]; same != nil {
		f.same, f.terms = same, nil
		return
	}
	if d.w.ledger != nil {
		in, where, ok := d.w.ledger.File(f.id.File)
		if ok && (in.Metadata || d.w.o.NoSHA) && d.isDescribed(in) {
			f.id.Shard, f.id.Block = where, in.Block
			f.terms = nil
			return
		}
	}
	d.files[f.id.File] = f
	f.verify = make([]codec.Hash, len(f.terms))
	rest := d.leaves
	for i, t := range f.terms {
		f.verify[i], rest = d.verification(rest[:t.chunks]), rest[t.chunks:]
	}
	d.shardBytes += d.w.blockSize(f) + lookupEntry
}

// isDescribed reports whether a File Info block is that of the open file. Its name alone
// says nothing: the terms must have the chunks and the bytes that the file has.
func (d *deduper) isDescribed(in *shard.FileInfo) bool {
	if len(in.Verify) != len(in.Terms) {
		return false
	}
	rest := d.leaves
	for i, t := range in.Terms {
		n := t.Chunks.Len()
		if n > len(rest) || sizeOf(rest[:n]) != uint64(t.Size) || d.verification(rest[:n]) != in.Verify[i] {
			return false
		}
		rest = rest[n:]
	}
	return len(rest) == 0
}

func sizeOf(leaves []merkle.Leaf) (size uint64) {
	for _, l := range leaves {
		size += l.Size
	}
	return size
}

// verification returns the verification hash of a term of these chunks.
func (d *deduper) verification(leaves []merkle.Leaf) codec.Hash {
	d.hashes = d.hashes[:0]
	for _, l := range leaves {
		d.hashes = append(d.hashes, l.Hash)
	}
	return merkle.Term(d.hashes)
}
