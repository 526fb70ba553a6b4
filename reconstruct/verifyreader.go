package reconstruct

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
)

// VerifyReader reads the file sequentially and verifies every chunk hash that is known and
// every verification hash of a term. It also verifies the file hash. If the file is wrong, the
// last Read returns an error instead of io.EOF.
//
// If sum is not nil, the SHA-256 of the file is compared with it, too.
//
// A file of a source without proofs is proven by it. With Options.Strict, and for a small file, the
// first Read returns only after that.
func (f *File) VerifyReader(ctx context.Context, sum *[32]byte) io.Reader {
	if f.tracker != nil && f.gated {
		return &gatedReader{ctx: ctx, f: f, sum: sum}
	}
	v := newVerifyReader(ctx, f, sum)
	v.batches.run = f.r.c.RunKnown // chunks of a server that lied would fail a read of a sound one
	return v
}

// A gatedReader is a VerifyReader that proves its file before the first byte.
type gatedReader struct {
	ctx context.Context // of the reads; io.Reader has no parameter for it
	f   *File
	sum *[32]byte
	r   io.Reader // nil: before the first Read
}

// Read implements io.Reader.
func (g *gatedReader) Read(p []byte) (int, error) {
	if g.r == nil {
		f, err := g.f.awaitProof(g.ctx)
		if err != nil {
			return 0, err
		}
		if g.sum != nil {
			if err := f.CheckSHA256(g.ctx, *g.sum); err != nil {
				return 0, err
			}
		}
		if content, ok := f.r.small.get(f.id); ok { // since the proof
			g.r = bytes.NewReader(content)
		} else {
			g.r = newVerifyReader(g.ctx, f, g.sum)
		}
	}
	return g.r.Read(p)
}

// WriteTo implements io.WriterTo.
func (g *gatedReader) WriteTo(w io.Writer) (int64, error) {
	if _, err := g.Read(nil); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return io.Copy(w, g.r)
}

// Check reads the file of a File Info block, and verifies the same hashes as VerifyReader and
// the SHA-256 of the block. It does not try another block if this one is corrupt. It calls read
// with the number of bytes read since the last call.
func (r *Reader) Check(ctx context.Context, fi *shard.FileInfo, read func(n int64)) error {
	return r.CheckChunks(ctx, fi, read, func(codec.Hash, codec.ChunkRange) {})
}

// CheckChunks is Check that also calls proven with chunks of a xorb. The chunks were unpacked and
// have the hashes of the list that proves the xorb. Chunks without a known hash are left out.
func (r *Reader) CheckChunks(ctx context.Context, fi *shard.FileInfo, read func(n int64), proven func(x codec.Hash, r codec.ChunkRange)) error {
	f := newFile(r, codec.FileID{File: fi.File}, fi)
	f.fixed = true
	w := newVerifyReader(ctx, f, f.claim())
	w.proven = proven
	defer w.batches.close()
	for {
		batch, err := w.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		read(int64(len(batch)))
	}
}

// batchChunks is how many chunks are read and unpacked at a time: at most 4 MiB.
const batchChunks = 32

// A verifyReader is one sequential read of a file.
type verifyReader struct {
	ctx     context.Context // of the reads; io.Reader has no parameter for it
	f       *File
	batches *batches
	proven  func(codec.Hash, codec.ChunkRange)

	last    batch           // that was read; no chunks: none
	size    int64           // bytes of its term so far
	tree    merkle.FileTree // of all chunks so far
	chunks  int64           // number of all chunks so far
	hashes  []codec.Hash    // of the chunks of this term so far
	midTerm bool            // moveTo started within this term
	sum     hash.Hash       // SHA-256 of all bytes so far; nil: not needed
	want    *[32]byte       // to be compared with sum

	content     hash.Hash            // of a file without chunk hashes; nil: another file
	wantContent []byte               // to be compared with content
	contentErr  error                // of the look-up of content
	fresh       bool                 // see refetch
	fetched     []origin.ChunkHashes // of the first chunks of a file that is not proven

	hashing sync.WaitGroup // computes sum and content of a batch while the next one is unpacked

	buf   []byte // for the next batch
	given []byte // the last batch
	rest  []byte // of given, not yet read
	err   error
}

func newVerifyReader(ctx context.Context, f *File, sum *[32]byte) *verifyReader {
	w := &verifyReader{ctx: ctx, f: f, batches: newBatches(ctx, f), want: sum}
	if sum != nil {
		w.sum = sha256.New()
	}
	if f.tracker != nil {
		w.content, w.wantContent, w.contentErr = f.r.c.ContentHash(f.id)
	}
	if f.needsSum {
		w.addSum()
	}
	return w
}

// addSum makes v compute the SHA-256 of a file of a source without proofs. It does nothing if the
// SHA-256 of the file hash is known, or another hash of the content proves the file.
func (v *verifyReader) addSum() {
	if v.f.tracker != nil && v.content == nil && v.sum == nil && !v.f.hasSum() {
		v.sum = sha256.New()
	}
}

// refetch makes v request all chunks again and compare them with no hash but that of the file.
func (v *verifyReader) refetch() { v.fresh, v.batches.run = true, v.f.r.c.Refetch }

// Read implements io.Reader.
func (v *verifyReader) Read(p []byte) (int, error) {
	if v.fill(); len(v.rest) == 0 {
		return 0, v.err
	}
	n := copy(p, v.rest)
	v.rest = v.rest[n:]
	return n, nil
}

// WriteTo implements io.WriterTo. It saves the copy of Read, and unpacks a batch while w writes the
// batch before. After an error of w, it ends the fetches, and no later call returns bytes.
func (v *verifyReader) WriteTo(w io.Writer) (written int64, err error) {
	var writing sync.WaitGroup
	for {
		v.fill()
		if writing.Wait(); err != nil || len(v.rest) == 0 {
			break
		}
		b := v.rest
		v.rest = nil
		writing.Go(func() {
			var n int
			n, err = w.Write(b)
			written += int64(n)
		})
	}
	switch {
	case err != nil:
		v.rest, v.err = nil, err
		v.batches.close()
		return written, err
	case errors.Is(v.err, io.EOF):
		return written, nil
	}
	return written, v.err
}

// fill reads the next bytes of the file if all bytes before were returned.
func (v *verifyReader) fill() {
	for len(v.rest) == 0 && v.err == nil {
		if v.rest, v.err = v.next(); v.err != nil {
			v.batches.close()
			if !errors.Is(v.err, io.EOF) && (v.f.tracker == nil || !isSumError(v.err)) {
				v.f.forgetAfter(v.err)
				v.f.markWrong(v.err)
			}
		}
	}
}

// next returns the next bytes of the file, valid until the following call. It first waits for the
// hashes of the bytes of the call before, whose buffer the following call uses.
func (v *verifyReader) next() ([]byte, error) {
	if v.contentErr != nil {
		return nil, v.contentErr
	}
	at, ok, err := v.following()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, v.end()
	}
	b, err := v.batch(at)
	if err != nil && !v.f.fixed {
		v.f.forgetAfter(err)
		v.f.contradict(at.xorb, at.chunks, err)
		if other := v.f.another(v.ctx, at.g, err); other != nil {
			v.moveTo(other)
			return v.next()
		}
	}
	if err != nil {
		return nil, at.g.termError(at.term, err)
	}
	if at.ends() && !v.midTerm {
		if err := v.endTerm(at); err != nil {
			return nil, v.f.named(at.g.termError(at.term, err))
		}
	}
	v.last = at
	if at.ends() {
		v.size, v.hashes, v.midTerm = 0, v.hashes[:0], false
	}
	v.buf, v.given = v.given, v.buf
	v.hash(b)
	return b, nil
}

// hash adds a batch to the hashes of the content. It returns before that is done. The bytes must not
// change before the following call.
func (v *verifyReader) hash(b []byte) {
	if v.sum == nil && v.content == nil {
		return
	}
	v.hashing.Wait()
	v.hashing.Go(func() {
		for _, h := range []hash.Hash{v.sum, v.content} {
			if h != nil {
				h.Write(b)
			}
		}
	})
}

// following returns the next batch; false at the end.
func (v *verifyReader) following() (batch, bool, error) {
	if v.last.g != nil {
		return v.last.next(v.ctx)
	}
	if v.f.groups() == 0 {
		return batch{}, false, nil
	}
	b, err := v.f.first(v.ctx)
	return b, err == nil, err
}

// batch reads the chunks of a batch.
func (v *verifyReader) batch(b batch) ([]byte, error) {
	r, ctx := b.chunks, v.ctx
	var hashes [batchChunks]codec.Hash
	var run *cache.Run
	for try := 1; ; try++ {
		var err error
		if try == 1 {
			run, err = v.batches.get(b)
		} else {
			run, err = v.batches.run(ctx, b.xorb, r)
		}
		if err == nil {
			n := int(run.UnpackedSize())
			v.buf = slices.Grow(v.buf[:0], n)[:n]
			if err = unpackAll(v.ctx, run, v.buf, hashes[:]); err != nil {
				err = fmt.Errorf("xorb %s: %w", b.xorb, err)
			}
		}
		if err == nil && v.f.tracker != nil {
			err = v.note(b, run, hashes[:r.Len()])
		}
		if err == nil {
			break
		}
		if !v.f.r.c.ShouldRetry(b.xorb, err, try) {
			return nil, err
		}
		ctx = origin.NoCache(ctx)
	}
	if v.proven != nil && run.Hashes != nil && !slices.Contains(run.Hashes, codec.Hash{}) {
		v.proven(b.xorb, r)
	}
	for i := range r.Len() {
		n := run.Size(r.Start + uint32(i))
		v.tree.Add(merkle.Leaf{Hash: hashes[i], Size: uint64(n)})
	}
	v.chunks += int64(r.Len())
	run.Free()
	v.hashes = append(v.hashes, hashes[:r.Len()]...)
	v.size += int64(len(v.buf))
	return v.buf, nil
}

// note records the chunks of a batch of a file of a source without proofs.
func (v *verifyReader) note(b batch, run *cache.Run, hashes []codec.Hash) error {
	leaves := make([]merkle.Leaf, len(hashes))
	for i, h := range hashes {
		leaves[i] = merkle.Leaf{Hash: h, Size: uint64(run.Size(b.chunks.Start + uint32(i)))}
	}
	if err := v.f.note(b.g, b.term, b.chunks, v.size, leaves); err != nil {
		return err
	}
	if v.chunks < maxFetched && (v.fresh || !v.f.isProven()) {
		v.fetched = append(v.fetched, origin.ChunkHashes{Xorb: b.xorb, Start: b.chunks.Start, Leaves: leaves})
	}
	return nil
}

// moveTo continues with another File Info block of the same file, behind the chunks that were
// read. A term that it starts within is verified by the file hash alone.
func (v *verifyReader) moveTo(g *group) {
	v.batches.restart(v.ctx)
	v.last, v.size, v.hashes, v.midTerm = batch{}, 0, v.hashes[:0], false
	read := v.chunks
	if read == 0 {
		return // following begins with the first batch
	}
	for i, t := range g.layout.terms {
		if n := int64(t.Chunks.Len()); read > n {
			read -= n
			continue
		}
		v.last = batch{g, i, t.Xorb, codec.ChunkRange{Start: t.Chunks.Start, End: t.Chunks.Start + uint32(read)}}
		v.midTerm = !v.last.ends()
		return
	}
}

// unpackAll unpacks all chunks of a run into dst, on all cores, and returns their hashes in
// hashes.
func unpackAll(ctx context.Context, run *cache.Run, dst []byte, hashes []codec.Hash) error {
	var next atomic.Uint32
	var group errgroup.Group
	for range min(runtime.GOMAXPROCS(0), run.Chunks.Len()) {
		group.Go(func() (err error) {
			defer flight.Guard(&err)
			for {
				i := next.Add(1) - 1
				chunk := run.Chunks.Start + i
				if chunk >= run.Chunks.End || ctx.Err() != nil {
					return ctx.Err()
				}
				into := dst[run.UnpackedStart(chunk):][:run.Size(chunk)]
				if hashes[i], err = run.Unpack(chunk, into); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// endTerm checks a term that was read to its end.
func (v *verifyReader) endTerm(b batch) error {
	t := b.of()
	if v.size != int64(t.Size) {
		return codec.Corrupt("term", 0, "chunks %v are %d bytes, the term says %d", t.Chunks, v.size, t.Size)
	}
	if b.g.verify == nil {
		return nil
	}
	if got, want := merkle.Term(v.hashes), b.g.verify[b.term]; got != want {
		return codec.Corrupt("term", 0, "verification hash of chunks %v is %s, the shard says %s", t.Chunks, got, want)
	}
	return nil
}

// end checks the file when all terms were read.
func (v *verifyReader) end() error {
	v.hashing.Wait()
	if err := v.endFile(); err != nil {
		return err
	}
	v.f.verifiedWhole.Store(true)
	if v.f.tracker != nil {
		if err := v.endProof(); err != nil {
			return err
		}
	}
	return v.endSum()
}

// endFile compares the hash of a file.
func (v *verifyReader) endFile() error {
	if v.content == nil {
		if got := v.tree.Sum(); got != v.f.id.File {
			return v.f.otherFile(got)
		}
		return nil
	}
	if got := v.content.Sum(nil); !bytes.Equal(got, v.wantContent) {
		return v.f.otherContent(got, v.wantContent)
	}
	return nil
}

// maxFetched is how many chunks of a file a verifyReader keeps the hashes of: 20 MiB, for about 32 GiB.
// The cache may forget those of a much smaller file. Further chunks of a second fetch stay unproven. Later
// reads request them again and compare them with the marks of the file.
const maxFetched = 1 << 19

// endProof stores the hashes of a file of a source without proofs.
func (v *verifyReader) endProof() error {
	if !v.fresh && (v.chunks > maxFetched || len(v.fetched) == 0) {
		return v.f.proved(v.ctx)
	}
	for rest := v.fetched; len(rest) > 0; {
		n := min(len(rest), maxProved/batchChunks)
		v.f.r.c.Prove(rest[:n])
		if rest = rest[n:]; len(rest) > 0 {
			v.f.r.c.Flush(v.ctx) // the disk needs room for the next ones
		}
	}
	return v.f.tracker.prove()
}

// endSum compares the SHA-256 of a file with a right hash.
func (v *verifyReader) endSum() error {
	if v.sum == nil {
		return io.EOF
	}
	v.f.proveSum([32]byte(v.sum.Sum(nil)))
	if v.want != nil {
		if err := v.f.r.CheckSHA256(v.f.id, *v.want); err != nil {
			return err
		}
	}
	return io.EOF
}
