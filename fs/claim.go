package fs

import (
	"context"
	"errors"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/claims"
)

// claimedSHA256 returns the SHA-256 that an entry or its path claims, or nil.
func (f *filesystem) claimedSHA256(v *volume, e *page.Entry) *[32]byte {
	if f.hasUnprovenSHA256(e) {
		return e.SHA256
	}
	return v.pathSHA256(e.Path)
}

// hasUnprovenSHA256 reports whether nothing proves the SHA-256 that an entry has: that of a source without
// proofs is from a listing. A file outside Xet is named by the hash of its content.
func (f *filesystem) hasUnprovenSHA256(e *page.Entry) bool {
	return e.SHA256 != nil && hasTerms(e) && !e.ID.File.IsPlain() && !f.engine.proves()
}

// pathSHA256 returns the SHA-256 that a path claims, or nil.
func (v *volume) pathSHA256(path string) *[32]byte {
	if v.claimer == nil {
		return nil
	}
	want, ok := v.claimer.ClaimedSHA256(path)
	if !ok {
		return nil
	}
	return &want
}

// unprovenSHA256 returns the SHA-256 that an entry claims, or nil if nothing is left to compare. A false
// claim is an error.
func (f *filesystem) unprovenSHA256(v *volume, e *page.Entry) (*[32]byte, error) {
	want := f.claimedSHA256(v, e)
	if want == nil {
		return nil, nil
	}
	if _, ok := f.engine.SHA256(e.ID.File); ok {
		return nil, f.engine.CheckSHA256(e.ID, *want)
	}
	return want, nil
}

// acquireClaim gives a handle the claim of its path, which is compared with its reads. The claim of an entry
// (hasUnprovenSHA256) is not: the Xet hash proves the bytes, and SHA-256 would take a third of the rate.
func (f *filesystem) acquireClaim(h *fileHandle) {
	k := claims.Key{Ino: h.ino, File: h.id, SHA256: *h.unprovenSum}
	if r, ok := h.reader.(unprovenReader); ok {
		k.File = r.File() // another File with this ID may have returned wrong bytes
	}
	c, isNew := f.claims.Acquire(k, h.size)
	h.pathClaim, h.dropPages = c, h.dropPages || isNew
}

// falseClaim returns an error if the SHA-256 of an open file is not the wanted one. It waits for
// the proof of a gated file, and compares another one if its SHA-256 is known. For a wrong one it makes
// the kernel drop its pages of the file.
func (f *filesystem) falseClaim(ctx context.Context, h *fileHandle) (err error) {
	if h.unprovenSum == nil {
		return nil
	}
	if r, ok := h.reader.(unprovenReader); ok {
		err = r.CheckSHA256(ctx, *h.unprovenSum)
	} else {
		err = f.engine.CheckSHA256(h.id, *h.unprovenSum)
	}
	if errors.Is(err, codec.ErrCorrupt) {
		f.dropInodePages(h.ino)
	}
	return err
}

// checkClaim adds a read of an open file to its claim. For a false claim it returns an error and
// makes the kernel drop its pages of the file.
func (f *filesystem) checkClaim(ctx context.Context, h *fileHandle, p []byte, off int64) error {
	if h.pathClaim == nil {
		return nil
	}
	sum, complete, err := h.pathClaim.Add(ctx, p, off)
	if err != nil || !complete {
		return err
	}
	if r, ok := h.reader.(unprovenReader); ok {
		err = r.CompareReadSHA256(sum, h.pathClaim.SHA256)
	} else {
		f.engine.ProveSHA256(h.id.File, sum)
		err = f.engine.CheckSHA256(h.id, h.pathClaim.SHA256)
	}
	if err != nil {
		f.dropInodePages(h.ino)
	}
	return err
}
