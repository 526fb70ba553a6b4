package warm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// Limits of the requests for the chunks of a remote xorb.
const (
	rowBytes  = 4 << 20  // of one range, unpacked, about
	rowGap    = 64 << 10 // unwanted bytes that one range may contain, to save a request
	roomBytes = 64 << 20 // of all ranges in flight
	rowRoom   = 2 << 20  // charged for each range at least, which bounds their number
)

// warmTries is the number of attempts for missing chunks. A slow disk may not take everything
// at once.
const warmTries = 3

var errNotKept = errors.New("the disk cache does not keep what was fetched")

// A rangeRequest is a range of chunks of a xorb.
type rangeRequest struct {
	xorb   codec.Hash
	chunks codec.ChunkRange
	bytes  int64  // wanted, unpacked, about
	path   string // of a file that needs some of them
}

// A missingChunks holds the chunks of one xorb that are wanted and not on disk.
type missingChunks struct {
	chunks   codec.ChunkSet
	n, bytes int64 // number, and approximate bytes
	path     string
}

// missingRanges holds the missing chunks of several files, by xorb.
type missingRanges map[codec.Hash]*missingChunks

// add adds the missing chunks of a file, and reports whether there are any.
func (r *Run) add(to missingRanges, path string, terms []codec.Term) (missing bool) {
	for _, t := range terms {
		for _, r := range r.Cache.Missing(t.Xorb, t.Chunks) {
			missing = true
			of := to[t.Xorb]
			if of == nil {
				of = &missingChunks{path: path}
				to[t.Xorb] = of
			}
			of.add(r, int64(t.Size)*int64(r.Len())/int64(t.Chunks.Len()))
		}
	}
	return missing
}

// add adds chunks with an approximate size in bytes.
func (w *missingChunks) add(r codec.ChunkRange, bytes int64) {
	w.n += int64(r.Len())
	w.bytes += bytes
	w.chunks.Add(r)
}

// rows returns the requests. It reads across small gaps, so that few requests are enough.
func (all missingRanges) rows() (rows []rangeRequest) {
	for x, w := range all {
		average := max(1, w.bytes/w.n)
		gap, most := uint32(rowGap/average), uint32(max(1, rowBytes/average))
		for r := range w.chunks.Ranges(gap, most) {
			rows = append(rows, rangeRequest{x, r, average * int64(w.chunks.Count(r)), w.path})
		}
	}
	slices.SortFunc(rows, func(a, b rangeRequest) int {
		return cmp.Or(a.xorb.Compare(b.xorb), cmp.Compare(a.chunks.Start, b.chunks.Start))
	})
	return rows
}

// storeChunks stores the packed chunks of one file, and reports whether all were on disk
// before.
func (r *Run) storeChunks(ctx context.Context, c file, read func(n int64)) (there bool, err error) {
	f, err := r.Reader.Open(ctx, c.id)
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
		missing := missingRanges{}
		if !r.add(missing, path, terms) {
			return try == 0, nil
		}
		lost, err := r.download(ctx, missing.rows(), done)
		if err == nil && r.add(missingRanges{}, path, terms) {
			err = lost
		}
		if err != nil {
			return false, err
		}
	}
	if r.add(missingRanges{}, path, terms) {
		return false, cmp.Or(r.Disk.WriteErr(), errNotKept)
	}
	return false, nil
}

// fits returns an error unless the terms of a file hold as many bytes as its entry says.
func (c file) fits(size int64) error {
	if size != c.size {
		return codec.Corrupt("terms", 0, "hold %d bytes, the catalog says %d", size, c.size)
	}
	return nil
}

// download sends requests in parallel and calls done with the bytes of each. lost is the first
// error that concerns single chunks, which are corrupt or missing. err is set if the download
// as a whole stopped.
func (r *Run) download(ctx context.Context, rows []rangeRequest, done func(n int64)) (lost, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		mu    sync.Mutex
		going sync.WaitGroup
	)
	for _, row := range rows {
		room := min(max(row.bytes, rowRoom), roomBytes)
		if r.room.Acquire(ctx, room) != nil {
			break
		}
		going.Go(func() {
			defer r.room.Release(room)
			err := r.downloadRange(ctx, row)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil, r.Disk.WriteErr() != nil: // the next store of a file reports the same error
				done(row.bytes)
			case theFile(err):
				lost = cmp.Or(lost, err)
			default:
				stop(fmt.Errorf("%s: %w", row.path, err))
			}
		})
	}
	going.Wait()
	return lost, context.Cause(ctx)
}

// downloadRange downloads one range, and corrupt chunks once more.
func (r *Run) downloadRange(ctx context.Context, row rangeRequest) error {
	c := r.Cache
	err := c.Download(ctx, row.xorb, row.chunks)
	for try := 1; err != nil && c.ShouldRetry(row.xorb, err, try); try++ {
		err = nil
		for _, r := range c.Missing(row.xorb, row.chunks) {
			if err = c.Download(origin.NoCache(ctx), row.xorb, r); err != nil {
				break
			}
		}
	}
	return err
}
