package reconstruct

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/xetfs/xetfs/codec"
)

// maxSums bounds the number of files with a known SHA-256: about 15 MiB of memory.
const maxSums = 1 << 16

// SHA256 returns the SHA-256 of a file, if a whole read has proven it.
func (r *Reader) SHA256(file codec.Hash) (sum [32]byte, ok bool) {
	if sum, ok = r.sums.Get(file); ok || r.Proves() {
		return sum, ok
	}
	if sum, ok = r.c.SHA256(file); ok {
		r.sums.Add(file, sum, 1)
	}
	return sum, ok
}

// ProveSHA256 notes the SHA-256 of a file that a caller has read whole.
func (r *Reader) ProveSHA256(file codec.Hash, sum [32]byte) { r.sums.Add(file, sum, 1) }

// proveSum notes the SHA-256 of f, and stores that of a large file of a source without proofs.
func (f *File) proveSum(sum [32]byte) {
	f.r.sums.Add(f.id.File, sum, 1)
	if f.tracker != nil && f.size > smallFile {
		f.r.c.ProveSHA256(f.id.File, sum)
	}
}

// CompareReadSHA256 compares the SHA-256 of all bytes that h returned with the one that their path
// claims. If the chunks of a proven file have it, later calls of CheckSHA256 know it, right or wrong. A
// damaged plain file must not make a right entry wrong.
func (h *Handle) CompareReadSHA256(sum, want [32]byte) error {
	f := h.f.current()
	if f.isProven() && (sum == want || !h.f.readBacking.Load()) {
		f.proveSum(sum)
	}
	if sum == want {
		return nil
	}
	f.r.contradicted(f.id)
	return WrongSHA256(f.id, sum, want)
}

// CheckSHA256 is File.CheckSHA256.
func (h *Handle) CheckSHA256(ctx context.Context, want [32]byte) error {
	return h.f.CheckSHA256(ctx, want)
}

// CheckSHA256 returns an error if the known SHA-256 of a file differs from the one that an unproven
// entry or name has.
func (r *Reader) CheckSHA256(id codec.FileID, want [32]byte) error {
	got, ok := r.SHA256(id.File)
	if !ok || got == want {
		return nil
	}
	r.contradicted(id)
	return WrongSHA256(id, got, want)
}

// contradicted reports that a file contradicts its entry.
func (r *Reader) contradicted(id codec.FileID) {
	if r.onContradiction != nil {
		r.onContradiction(id)
	}
}

// CheckSHA256 compares the file with the SHA-256 that an unproven entry has, such as one of a
// listing of the Hub. A gated file is proven for that. The SHA-256 of another file is compared if it
// is known.
func (f *File) CheckSHA256(ctx context.Context, want [32]byte) error {
	if f.needsSum {
		return f.VerifySHA256(ctx, want)
	}
	return f.r.CheckSHA256(f.id, want)
}

// VerifySHA256 is CheckSHA256 that reads any file whole whose SHA-256 is not known.
func (f *File) VerifySHA256(ctx context.Context, want [32]byte) error {
	if !f.hasSum() {
		find := func(ctx context.Context) (struct{}, error) { return struct{}{}, f.findSum(ctx, want) }
		if _, err := f.r.summing.Do(ctx, f.id.File, find); err != nil {
			return err
		}
	}
	return f.r.CheckSHA256(f.id, want)
}

// LearnSHA256 makes the SHA-256 of a file known in the background, which is probably want. It does nothing
// unless the file is stored as a plain file: the SHA-256 of that was lost, or another source stored it.
func (h *Handle) LearnSHA256(want [32]byte) {
	if f := h.f; f.tracker != nil && f.r.c.HasFile(f.id.File) && !f.hasSum() {
		f.wantSum.Store(&want)
		f.r.materializer.enqueue(f)
	}
}

// hasSum reports whether the SHA-256 of the file is known.
func (f *File) hasSum() bool {
	_, ok := f.r.SHA256(f.id.File)
	return ok
}

// findSum makes the SHA-256 of the file known, which is probably want.
func (f *File) findSum(ctx context.Context, want [32]byte) error {
	if f.hasSum() || f.hasBackingSum(ctx, want) {
		return nil
	}
	if err := f.Prove(ctx); err != nil {
		return err
	}
	return f.current().learnSum(ctx)
}

// learnSum makes the SHA-256 of a proven file known. It reads the file if necessary.
func (f *File) learnSum(ctx context.Context) error {
	if f.hasSum() {
		return nil
	}
	if content, _, err := f.r.c.ContentHash(f.id); content != nil || err != nil {
		return err // content has proven the file
	}
	return f.inRoom(ctx, func(ctx context.Context, w *progressWatch) error {
		v := newVerifyReader(ctx, f, nil)
		v.addSum()
		return f.readAll(ctx, v, w)
	})
}

// hasBackingSum reports whether the file is stored whole with the SHA-256 want, which is known then.
// Another one may be that of a damaged plain file.
func (f *File) hasBackingSum(ctx context.Context, want [32]byte) bool {
	h, buf := sha256.New(), make([]byte, min(f.size, 1<<20))
	for off := int64(0); off < f.size; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), f.size-off)]
		if ctx.Err() != nil || !f.r.backing.readAt(f.id.File, buf, off) {
			return false
		}
		h.Write(buf)
	}
	if [32]byte(h.Sum(nil)) != want {
		return false
	}
	f.proveSum(want)
	return true
}

// A sumError reports that a file has another SHA-256 than its shard, index page or name says. It is
// codec.ErrCorrupt.
type sumError struct{ err error }

func (e *sumError) Error() string { return e.err.Error() }

// Unwrap returns the codec.CorruptError.
func (e *sumError) Unwrap() error { return e.err }

func isSumError(err error) bool {
	var sum *sumError
	return errors.As(err, &sum)
}

// WrongSHA256 is the error of a file with another SHA-256 than want. It is codec.ErrCorrupt.
func WrongSHA256(id codec.FileID, got, want [32]byte) error {
	return &sumError{codec.Corrupt("file info block", id.Block, "SHA-256 of the file is %x, its shard or entry says %x", got, want)}
}

// claim returns the SHA-256 that the File Info block claims, or nil.
func (f *File) claim() *[32]byte {
	if f.sha256 == ([32]byte{}) {
		return nil
	}
	return &f.sha256
}

// claimedWrong reports whether a whole read has shown that the block of f claims a wrong
// SHA-256.
func (f *File) claimedWrong() bool {
	claim := f.claim()
	got, ok := f.r.sums.Get(f.id.File)
	return ok && claim != nil && got != *claim
}
