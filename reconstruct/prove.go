package reconstruct

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// The files of a source without proofs (origin.Source.Proves) are checked in one of two ways.
//
// Gated files are proven before a reader gets their first byte: small files, all files with
// Options.Strict, and files that were found corrupt before. So are proven files whose next plan has
// other terms. A gated file that is wrong is fetched once more, with another plan, before its readers
// get an error.
//
// Readers of other files get seen chunks at once. The read that completes the file waits until
// the hash of the file is computed from its chunks, and so do all reads meanwhile. If the file is
// wrong, they and all later ones of its handles fail. The next open gets a gated file.
//
// A server may store a file again in other xorbs. Handles then read on by the new plan, unless they have
// returned unproven bytes (replacement).

// smallFile is the size up to which files are gated, in bytes.
const smallFile = 4 << 20

// planLimit is the time in which discard reads terms that are not in memory. readLimit is that of a read
// that has waited for a proof.
const (
	planLimit = 10 * time.Second
	readLimit = time.Minute
)

// NeedsProof reports whether the next read waits for the proof of the whole file. It may then take
// long. A read that has completed the file, and ran out of time, needs more for its check.
func (f *File) NeedsProof() bool {
	now := f.current()
	if now.gated {
		return now.tracker.err() == nil && !now.isOpen.Load()
	}
	return !now.isProven() && now.tracker.complete() // most reads take no lock
}

// current returns the file that replaces f after a second fetch or with another plan, or f. A proven file
// remains if the one with another plan is wrong.
func (f *File) current() *File {
	for {
		next := f.successor.Load()
		if next == nil || f.tracker.isProven() && next.tracker.err() != nil {
			return f
		}
		f = next
	}
}

// isProven reports whether the chunks of a file are known to make the file.
func (f *File) isProven() bool { return f.tracker == nil || f.current().tracker.isProven() }

// maxSuspects is how many corrupt files, and how many proven files without their plan, are remembered.
const maxSuspects = 4096

// isSuspect reports whether a file was found corrupt last, and not read correctly since.
func (r *Reader) isSuspect(id codec.FileID) bool {
	_, ok := r.suspects.Get(id)
	return ok
}

// rememberPlan stores the sum of the terms of a proven file, before its plan is dropped.
func (f *File) rememberPlan() {
	if f.tracker != nil && f.isProven() {
		f.r.provenPlans.Remove(f.id) // Add would keep an earlier one
		f.r.provenPlans.Add(f.id, f.planSum, 1)
	}
}

// hasOtherPlan reports whether the file was proven with other terms.
func (f *File) hasOtherPlan() bool {
	sum, ok := f.r.provenPlans.Get(f.id)
	return ok && sum != f.planSum
}

// sumOf returns a sum of terms that a server cannot predict.
func sumOf(terms []codec.Term) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, t := range terms {
		maphash.WriteComparable(&h, t)
	}
	return h.Sum64()
}

// mayContinueAs reports whether a dropped file with open handles may be used instead of next. The pages
// that the kernel has of both are then checked together.
func (f *File) mayContinueAs(next *File) bool {
	return f.tracker != nil && f.tracker.err() == nil && !f.gated && !next.gated && f.planSum == next.planSum
}

// supersede ends the use of a dropped file whose handles may return unproven bytes. The kernel would show
// them to the readers of the file that replaces it, and neither file would be read whole.
func (f *File) supersede() {
	if f.tracker != nil && !f.gated {
		f.tracker.fail(f.named(codec.Corrupt("file info block", f.block, "the file was opened again after an error, and is another one now")))
	}
}

// readUnproven is read for a file of a source without proofs.
func (f *File) readUnproven(ctx context.Context, p []byte, off int64) error {
	f = f.current()
	err := f.readTracked(ctx, p, off)
	for range maxPlans {
		if f = f.replacement(ctx, err); f == nil {
			break
		}
		err = f.readTracked(ctx, p, off)
	}
	return err
}

// maxPlans bounds the further plans of one read. The plans of a server may alternate.
const maxPlans = 4

// replacement returns the file of another plan after a read has failed with err, or nil. The server may have
// stored the file in other xorbs. Readers must not have got unproven bytes of f: if they were wrong, their
// descriptors must fail.
func (f *File) replacement(ctx context.Context, err error) *File {
	if !mayBeRepaired(err) || f.fixed || f.large != nil {
		return nil
	}
	if now := f.current(); now != f {
		return now // another reader's
	}
	former := f.successor.Load()         // nil, or a wrong one
	next, openErr := f.r.Open(ctx, f.id) // forgetAfter has dropped f and its plan
	if openErr != nil {
		return nil
	}
	failed := f.planSum
	var named *fileError
	if errors.As(err, &named) {
		failed = named.plan // that of the second fetch
	}
	isOther := next.size == f.size && next.planSum != failed
	if isOther && (next.gated && (f.gated || f.tracker.isProven()) || f.tracker.failUnread(err)) {
		if f.successor.CompareAndSwap(former, next) {
			f.r.open.replace(f, next)
		}
		return f.current()
	}
	next.forgetAfter(err) // the server may repair it
	return nil
}

// readTracked reads with the plan of f.
func (f *File) readTracked(ctx context.Context, p []byte, off int64) error {
	if f.NeedsProof() {
		next, err := f.awaitProof(ctx)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, readLimit) // the limit of ctx is that of the proof
		defer cancel()
		return next.readProven(ctx, p, off)
	}
	if !f.tracker.isProven() {
		err := f.fetch(ctx, p, off)
		if err == nil {
			return f.gotPages(ctx, off, int64(len(p)))
		}
		if !errors.Is(err, errOtherChunk) || !f.tracker.isProven() {
			return err
		}
	}
	return f.readProven(ctx, p, off)
}

// awaitProof waits for the proof of a file, and returns the file to read.
func (f *File) awaitProof(ctx context.Context) (*File, error) {
	if !f.gated {
		return f, f.afterRead(ctx)
	}
	next, err := f.r.proving.Do(ctx, f.id, f.proveGated)
	if err == nil && next.size != f.size {
		err = f.otherSize(next) // the proof of another File with this ID
	}
	return next, err
}

// otherSize is the error of a file that is replaced by one of another size.
func (f *File) otherSize(next *File) error {
	return f.named(codec.Corrupt("file info block", f.block, "its size has changed from %d to %d", f.size, next.size))
}

// readProven reads from a file whose tracker has the marks of all chunks. A read whose bytes have
// other marks is repeated once.
func (f *File) readProven(ctx context.Context, p []byte, off int64) error {
	if f.r.small.read(f.id, p, off) {
		return nil
	}
	err := f.fetch(ctx, p, off)
	if errors.Is(err, errOtherChunk) {
		err = f.fetch(ctx, p, off)
	}
	return err
}

// gotPages records n bytes at off that readers got. It waits for the check of a file if they got all of it.
func (f *File) gotPages(ctx context.Context, off, n int64) error {
	if !f.gated {
		f.tracker.notePages(f.size, off, n)
	}
	return f.afterRead(ctx)
}

// afterRead waits for the check of a file if readers got all of it.
func (f *File) afterRead(ctx context.Context) error {
	for f.tracker.complete() {
		if _, err := f.r.checking.Do(ctx, f, f.checkRead); err != nil {
			return err
		}
	}
	return f.tracker.err()
}

// note records the chunks of a piece that was read. Chunks that differ from those that were read
// before are dropped. They make the file fail unless it is proven.
func (f *File) note(g *group, term int, r codec.ChunkRange, off int64, leaves []merkle.Leaf) error {
	err := f.tracker.note(g, term, r, off, leaves)
	if err == nil {
		return nil
	}
	err = f.named(err)
	f.r.c.DropUnproven(g.layout.terms[term].Xorb, r)
	f.markWrong(err)
	return err
}

// named returns an error with the hash of the file.
func (f *File) named(err error) error {
	var named *fileError
	if errors.As(err, &named) {
		return err
	}
	return &fileError{f.id.File, f.planSum, err}
}

// A fileError names a file that is wrong.
type fileError struct {
	file codec.Hash
	plan uint64 // its File.planSum
	err  error
}

func (e *fileError) Error() string { return fmt.Sprintf("file %s: %v", e.file, e.err) }
func (e *fileError) Unwrap() error { return e.err }

// markWrong ends the use of an unproven file if err shows that it is wrong. Readers of a gated file may still
// get its next fetch.
func (f *File) markWrong(err error) {
	switch {
	case !isWrong(err) || f.fixed || f.isProven():
		return
	case f.gated:
		f.discard()
		return
	case !f.tracker.fail(err):
		return
	}
	f.discard()
	if report := f.r.onCorrupt.Load(); report != nil {
		(*report)(f.id)
	}
}

// discard drops the plan of a file that is wrong, and all chunks that no other file has proven.
// Later opens get a file that is proven before its first byte.
func (f *File) discard() {
	f.r.suspects.Add(f.id, struct{}{}, 1)
	f.r.small.drop(f.id)
	ctx, cancel := context.WithTimeout(context.Background(), planLimit)
	defer cancel()
	chunks := map[codec.Hash]*codec.ChunkSet{} // by xorb: terms may repeat a chunk
	for terms, err := range f.TermGroups(ctx) {
		if err != nil {
			break // no reader gets such terms
		}
		for _, t := range terms {
			if chunks[t.Xorb] == nil {
				chunks[t.Xorb] = new(codec.ChunkSet)
			}
			chunks[t.Xorb].Add(t.Chunks)
		}
	}
	for x, set := range chunks {
		for r := range set.Ranges(0, codec.MaxXorbChunks) {
			f.r.c.DropUnproven(x, r)
		}
	}
	f.r.c.Forget(f.id)
	f.r.open.drop(f)
}

// OnCorrupt sets a function that is called after a file was found corrupt. Earlier reads of the
// file may have returned wrong bytes. It must not block.
func (r *Reader) OnCorrupt(report func(codec.FileID)) { r.onCorrupt.Store(&report) }

// proveGated proves a file, with one more fetch if it is wrong. It returns the file to read. The
// SHA-256 of a file in Xet is known then.
func (f *File) proveGated(ctx context.Context) (*File, error) {
	next, err := f.proveChunks(ctx)
	if err == nil && next.needsSum {
		err = next.learnSum(ctx)
	}
	if err == nil {
		next.isOpen.Store(true) // not before: a small file is in memory now, so no read fetches it again
	}
	return next, err
}

// proveChunks is proveGated without the SHA-256.
func (f *File) proveChunks(ctx context.Context) (next *File, err error) {
	if f.current().tracker.isProven() {
		return f.current(), nil
	}
	if !f.r.isSuspect(f.id) && f.proveByProven(ctx) == nil {
		return f, nil
	}
	err = f.inRoom(ctx, func(ctx context.Context, w *progressWatch) error {
		next, err = f.proveByReading(ctx, w)
		return err
	})
	return next, err
}

// proveByReading is proveChunks for a file that the known hashes do not prove.
func (f *File) proveByReading(ctx context.Context, w *progressWatch) (next *File, err error) {
	next = f
	isSuspect, again := f.r.isSuspect(f.id), (*File).refetch
	if !isSuspect {
		if err = f.prove(ctx, w); !mayBeRepaired(err) {
			return f, err
		}
	}
	if !isSuspect || !f.tracker.isEmpty() { // an aborted second fetch may have left marks of wrong chunks
		if errors.Is(err, origin.ErrNotFound) { // the server may have the file in other xorbs: no chunk is wrong
			again = (*File).prove
			f.forgetAfter(err)
		} else {
			f.discard()
		}
		if next, err = f.r.Open(ctx, f.id); err != nil {
			return nil, err
		}
	}
	if err = again(next, ctx, w); err == nil && next.size != f.size {
		err = f.otherSize(next)
	}
	switch {
	case err == nil && next != f:
		f.successor.Store(next)
	case mayBeRepaired(err):
		err = next.named(err)
		next.markWrong(err) // unless it is proven: f alone is wrong then
		next.tracker.fail(err)
		f.tracker.fail(err)
		f.r.contradicted(f.id)
	}
	return next, err
}

// contradict handles the error of a read of chunks r of xorb x. Unproven chunks are dropped, since they
// may not fit the term.
//
// A proven hash that contradicts all copies of a chunk may be that of another xorb, which a wrong plan has
// named x. Such a chunk becomes unproven, and the next open gets a gated file: its hash decides.
func (f *File) contradict(x codec.Hash, r codec.ChunkRange, err error) {
	if f.tracker == nil || !errors.Is(err, codec.ErrCorrupt) {
		return
	}
	f.r.c.DropUnproven(x, r)
	var of *codec.ChunkError
	if !errors.As(err, &of) {
		return
	}
	r = codec.ChunkRange{Start: uint32(of.Chunk), End: uint32(of.Chunk) + 1}
	if proven := f.r.c.Proven(x, r); proven == nil || proven[0].Hash.IsZero() {
		return
	}
	f.r.c.Prove([]origin.ChunkHashes{{Xorb: x, Start: r.Start, Leaves: make([]merkle.Leaf, 1)}})
	if !f.isProven() {
		f.discard()
	}
}

// isWrong reports whether err shows that a file or its plan is wrong. Other errors concern one read: a chunk
// may be missing, or damaged on its way.
func isWrong(err error) bool {
	var wrong *fileError
	return errors.As(err, &wrong)
}

// mayBeRepaired reports whether another fetch of a file, with another plan, may end without err. A sumError
// shows that the entry is wrong that leads to the file.
func mayBeRepaired(err error) bool {
	return (errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound)) && !isSumError(err)
}

// Prove proves a file of a source without proofs, and reads it if necessary. A wrong file is fetched
// once more. Prove does nothing for other files.
func (f *File) Prove(ctx context.Context) error {
	if f.gated {
		_, err := f.awaitProof(ctx)
		return err
	}
	if f.isProven() {
		return nil
	}
	err := f.inRoom(ctx, f.prove)
	if !isWrong(err) {
		return err
	}
	f.markWrong(err)
	return f.proveNext(ctx)
}

// inRoom waits for room for the proof of a file, and calls do with the limits of one.
func (f *File) inRoom(ctx context.Context, do func(context.Context, *progressWatch) error) error {
	room, n := f.r.largeProofs, int64(1)
	if f.size <= smallFile {
		room, n = f.r.smallProofs, f.size
	}
	if err := room.Acquire(ctx, n); err != nil {
		return err
	}
	defer room.Release(n)
	ctx, w := watchProgress(ctx)
	defer w.stop()
	return w.timeout(do(ctx, w))
}

// proveNext proves the file that replaces f after it was found wrong.
func (f *File) proveNext(ctx context.Context) error {
	next, err := f.r.Open(ctx, f.id)
	if err != nil {
		return err
	}
	return next.Prove(ctx)
}

// prove proves a file from the hashes that are known, or else reads it.
func (f *File) prove(ctx context.Context, w *progressWatch) error {
	if err := f.proveByProven(ctx); !errors.Is(err, errUnknownHash) {
		return err
	}
	if err := f.proveBySeen(ctx); !errors.Is(err, errUnknownHash) {
		return err
	}
	if f.size > smallFile || f.hasUnknown(ctx) {
		v := newVerifyReader(ctx, f, nil)
		v.batches.waits = f.size > smallFile // readers read the chunks next
		return f.readAll(ctx, v, w)
	}
	content := make([]byte, f.size)
	if err := f.fetch(ctx, content, 0); err != nil {
		return err
	}
	if err := f.checkContent(ctx, content, w); err != nil {
		return err
	}
	if f.needsSum {
		f.proveSum(sha256.Sum256(content))
	}
	f.r.small.add(f.id, content)
	return nil
}

// hasUnknown reports whether unknown chunks of the file are on disk. A verifyReader may use them; fetch
// requests them again.
func (f *File) hasUnknown(ctx context.Context) bool {
	for terms, err := range f.TermGroups(ctx) {
		if err != nil || f.r.c.HasUnknown(terms) {
			return err == nil // fetch reports the error
		}
	}
	return false
}

// refetch proves a file with chunks that are requested again, and compared with no hash.
func (f *File) refetch(ctx context.Context, w *progressWatch) error {
	v := newVerifyReader(ctx, f, nil)
	v.refetch()
	err := f.readAll(ctx, v, w)
	if err != nil {
		f.r.open.drop(f) // the next fetch begins without marks
		return err
	}
	f.r.suspects.Remove(f.id)
	return nil
}

// readAll reads a file to its end.
func (f *File) readAll(ctx context.Context, v *verifyReader, w *progressWatch) error {
	v.batches.always = proofBatches
	defer v.batches.close()
	var content []byte
	for {
		b, err := v.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		w.progress()
		if f.size <= smallFile {
			content = append(content, b...)
		}
	}
	if f.size <= smallFile {
		f.r.small.add(f.id, content)
	} else {
		f.r.c.Flush(ctx) // its readers come next
	}
	return nil
}

// checkContent checks the content of a small file that was just read.
func (f *File) checkContent(ctx context.Context, content []byte, w *progressWatch) error {
	h, want, err := f.r.c.ContentHash(f.id)
	if err != nil {
		return err
	}
	if h == nil {
		if err := f.proveBySeen(ctx); !errors.Is(err, errUnknownHash) {
			return err
		}
		return f.readSeen(ctx, w)
	}
	h.Write(content)
	if got := h.Sum(nil); !bytes.Equal(got, want) {
		return f.otherContent(got, want)
	}
	return f.proved(ctx)
}

// checkRead checks a file when its readers got all of it. It waits for room only if it must read
// the file. It continues without its readers, but not after Close.
func (f *File) checkRead(ctx context.Context) (struct{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.r.ctx, cancel)()
	err := f.proveBySeen(ctx)
	if errors.Is(err, errUnknownHash) {
		err = f.inRoom(ctx, f.readSeen)
	}
	if err != nil {
		f.forgetAfter(err)
		f.markWrong(err) // else later reads check the file again
	}
	return struct{}{}, err
}

// readSeen proves a file by reading it through the cache. Readers got all of its chunks before, but a
// hash is forgotten, or the file has a hash of its content.
func (f *File) readSeen(ctx context.Context, w *progressWatch) error {
	return f.readAll(ctx, newVerifyReader(ctx, f, nil), w)
}

// errUnknownHash is the error of a proof by known hashes that cannot decide.
var errUnknownHash = errors.New("not all hashes are known")

// Limits of proofs that run at once, which read files: bytes of small files beside Options.Ahead, and
// number of others. Each of the others has proofBatches batches in memory, and more by Options.Ahead.
const (
	minSmallProofs = 16 << 20
	maxLargeProofs = 4
	proofBatches   = 2
	proofAhead     = 6 << 20 // of Options.Ahead, for each of the others
)

// proveByProven proves a file by the proven hashes of its chunks. It reads no chunk. The xorbs of a file
// with a hash of its content have no other files, so proven chunks prove it, too.
func (f *File) proveByProven(ctx context.Context) error {
	content, _, err := f.r.c.ContentHash(f.id)
	if err != nil {
		return err
	}
	return f.proveByLeaves(ctx, f.r.c.Proven, content == nil)
}

// proveBySeen is proveByProven with the hashes of all chunks that are proven or seen.
func (f *File) proveBySeen(ctx context.Context) error {
	content, _, err := f.r.c.ContentHash(f.id)
	if err == nil && content != nil {
		err = errUnknownHash
	}
	if err != nil {
		return err
	}
	return f.proveByLeaves(ctx, f.r.c.Leaves, true)
}

// proveByLeaves proves a file whose chunks have known hashes, which make the file hash if it has one.
func (f *File) proveByLeaves(ctx context.Context, known func(codec.Hash, codec.ChunkRange) []merkle.Leaf, hasFileHash bool) error {
	var tree merkle.FileTree
	for i := range f.groups() {
		g, err := f.group(ctx, i)
		if err != nil {
			return err
		}
		for term, t := range g.layout.terms {
			leaves := known(t.Xorb, t.Chunks)
			if err := f.checkTerm(g, term, leaves); err != nil {
				return err
			}
			for _, leaf := range leaves {
				tree.Add(leaf)
			}
		}
	}
	if got := tree.Sum(); hasFileHash && got != f.id.File {
		return f.otherFile(got)
	}
	return f.proved(ctx)
}

// checkTerm compares hashes and sizes of the chunks of a term with the term and with the chunks
// that readers got. Later reads must return these chunks: the cache may forget the hashes.
func (f *File) checkTerm(g *group, term int, leaves []merkle.Leaf) error {
	t, size := g.layout.terms[term], uint64(0)
	if len(leaves) != t.Chunks.Len() {
		return errUnknownHash
	}
	for _, leaf := range leaves {
		if leaf.Hash == (codec.Hash{}) {
			return errUnknownHash
		}
		size += leaf.Size
	}
	if size != uint64(t.Size) {
		return f.named(codec.Corrupt("term", 0, "chunks %v are %d bytes, the term says %d", t.Chunks, size, t.Size))
	}
	if err := f.tracker.note(g, term, t.Chunks, 0, leaves); err != nil {
		return f.named(fmt.Errorf("term %d: %w", g.firstTerm()+term, err))
	}
	return nil
}

// otherFile is the error of a file whose chunks make another one.
func (f *File) otherFile(got codec.Hash) error {
	return f.named(codec.Corrupt("file info block", f.block, "its chunks make file %s", got))
}

// otherContent is the error of a file whose content has another hash.
func (f *File) otherContent(got, want []byte) error {
	return f.named(codec.Corrupt("content", 0, "its hash is %x, want %x", got, want))
}

// maxProved is how many chunks are given to the source at a time.
const maxProved = 16 << 10

// proved stores the hashes of a file whose marks were proven: its chunks are then proven for all
// files. Hashes that the cache has forgotten meanwhile stay unproven.
func (f *File) proved(ctx context.Context) error {
	var all []origin.ChunkHashes
	n := 0
	for i := range f.groups() {
		g, err := f.group(ctx, i)
		if err != nil {
			return err
		}
		for term, t := range g.layout.terms {
			leaves := f.r.c.Leaves(t.Xorb, t.Chunks)
			if f.checkTerm(g, term, leaves) != nil {
				continue
			}
			all, n = append(all, origin.ChunkHashes{Xorb: t.Xorb, Start: t.Chunks.Start, Leaves: leaves}), n+len(leaves)
			if n >= maxProved {
				f.r.c.Prove(all)
				all, n = nil, 0
			}
		}
	}
	f.r.c.Prove(all)
	f.verifiedWhole.Store(true)
	return f.tracker.prove()
}
