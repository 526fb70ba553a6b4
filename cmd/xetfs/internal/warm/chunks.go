package warm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/reconstruct"
)

// Limits of the requests for the chunks of a remote xorb.
const (
	requestsRoom = 64 << 20 // bytes of all requests in flight
	requestRoom  = 2 << 20  // charged for each request at least, which bounds their number
)

// warmTries is the number of attempts for missing chunks. A slow disk may not take everything
// at once.
const warmTries = 3

var errNotKept = errors.New("the disk cache does not keep what was fetched")

// missingChunks are the chunks of several files that are not on disk.
type missingChunks struct {
	cache.Plan
	paths map[codec.Hash]string // by xorb: a file that needs some of its chunks
}

// add adds the missing chunks of a file, and reports whether there are any.
func (r *Run) add(to *missingChunks, path string, terms []codec.Term) (missing bool) {
	for _, t := range terms {
		for _, r := range r.Cache.Missing(t.Xorb, t.Chunks) {
			missing = true
			if to.paths == nil {
				to.paths = map[codec.Hash]string{}
			}
			if _, ok := to.paths[t.Xorb]; !ok {
				to.paths[t.Xorb] = path
			}
			to.Add(t.Xorb, r, int64(t.Size)*int64(r.Len())/int64(t.Chunks.Len()))
		}
	}
	return missing
}

// isMissing reports whether some chunks of terms are not on disk.
func (r *Run) isMissing(terms []codec.Term) bool {
	return slices.ContainsFunc(terms, func(t codec.Term) bool { return len(r.Cache.Missing(t.Xorb, t.Chunks)) > 0 })
}

// storeChunks stores the packed chunks of one file, and reports whether all were on disk
// before.
func (r *Run) storeChunks(ctx context.Context, c file, read func(n int64)) (there bool, err error) {
	f, err := r.Reader.OpenSize(ctx, c.id, c.size)
	if err != nil {
		return false, err
	}
	if err := c.fits(f.Size()); err != nil {
		return false, err
	}
	left := c.size
	done := func(n int64) {
		n = min(n, left)
		left -= n
		read(n)
	}
	there = true
	for group, err := range f.TermGroups(ctx) {
		if err != nil {
			return false, err
		}
		for terms := range slices.Chunk(group, windowTerms) {
			before, err := r.storeTerms(ctx, c.path, terms, done)
			if err != nil {
				return false, err
			}
			there = there && before
		}
	}
	return there, nil
}

// storeTerms stores the packed chunks of terms, and reports whether all were on disk before.
func (r *Run) storeTerms(ctx context.Context, path string, terms []codec.Term, done func(n int64)) (there bool, err error) {
	for try := range warmTries {
		missing := &missingChunks{}
		if !r.add(missing, path, terms) {
			return try == 0, nil
		}
		lost, err := r.download(ctx, missing, done)
		if err == nil && r.isMissing(terms) {
			err = lost
		}
		if err != nil {
			return false, err
		}
	}
	if r.isMissing(terms) {
		return false, cmp.Or(r.Disk.WriteErr(), errNotKept)
	}
	return false, nil
}

// fits returns an error unless the terms of a file hold as many bytes as its entry says.
func (c file) fits(size int64) error {
	if size != c.size {
		return reconstruct.WrongSize(size, c.size)
	}
	return nil
}

// download requests chunks in parallel and calls done with the bytes of each request. lost is
// the first error that concerns single chunks. err is set if the
// download as a whole stopped.
func (r *Run) download(ctx context.Context, missing *missingChunks, done func(n int64)) (lost, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		mu    sync.Mutex
		going sync.WaitGroup
	)
	for _, q := range r.Cache.Requests(&missing.Plan) {
		room := min(max(q.Bytes, requestRoom), requestsRoom)
		if r.room.Acquire(ctx, room) != nil {
			break
		}
		going.Go(func() {
			defer r.room.Release(room)
			err := r.downloadRange(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil, r.Disk.WriteErr() != nil: // the next store of a file reports the same error
				done(q.Bytes)
			case origin.ConcernsOneObject(err):
				lost = cmp.Or(lost, err)
			default:
				stop(fmt.Errorf("%s: %w", missing.paths[q.Xorb], err))
			}
		})
	}
	going.Wait()
	return lost, context.Cause(ctx)
}

// downloadRange downloads one range, and corrupt chunks once more.
func (r *Run) downloadRange(ctx context.Context, q cache.Request) error {
	c := r.Cache
	err := c.Download(ctx, q.Xorb, q.Chunks)
	for try := 1; err != nil && c.ShouldRetry(q.Xorb, err, try); try++ {
		err = nil
		for _, r := range c.Missing(q.Xorb, q.Chunks) {
			if err = c.Download(origin.NoCache(ctx), q.Xorb, r); err != nil {
				break
			}
		}
	}
	return err
}
