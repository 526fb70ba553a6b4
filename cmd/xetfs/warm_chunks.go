package main

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

// A far xorb is asked for rows of chunks.
const (
	rowBytes  = 4 << 20  // about so many, unpacked
	rowGap    = 64 << 10 // of them not wanted in a row, at a place, to save a request
	roomBytes = 64 << 20 // of all rows on their way
	rowRoom   = 2 << 20  // and of each at least: so many are on their way at most
)

// warmTries is how often what is missing is asked for. The disk may not take everything
// at once.
const warmTries = 3

var errNotKept = errors.New("the disk cache does not keep what was fetched")

// A chunkRow is some chunks of a xorb.
type chunkRow struct {
	xorb   codec.Hash
	chunks codec.ChunkRange
	bytes  int64  // about how many of them are wanted, unpacked
	path   string // of a file that wants some of them
}

// A wish is the chunks of one xorb that are wanted and not there.
type wish struct {
	chunks   codec.ChunkSet
	n, bytes int64 // how many, and about how large they are together
	path     string
}

// wishes are what is missing of some files.
type wishes map[codec.Hash]*wish

// add adds what is missing of a file, and says whether that is anything.
func (w *warming) add(to wishes, path string, terms []codec.Term) (missing bool) {
	for _, t := range terms {
		for _, r := range w.s.cache.Missing(t.Xorb, t.Chunks) {
			missing = true
			of := to[t.Xorb]
			if of == nil {
				of = &wish{path: path}
				to[t.Xorb] = of
			}
			of.add(r, int64(t.Size)*int64(r.Len())/int64(t.Chunks.Len()))
		}
	}
	return missing
}

// add adds chunks that have about so many bytes.
func (w *wish) add(r codec.ChunkRange, bytes int64) {
	w.n += int64(r.Len())
	w.bytes += bytes
	w.chunks.Add(r)
}

// rows returns what is to be asked for, so that few requests are enough.
func (all wishes) rows() (rows []chunkRow) {
	for x, w := range all {
		average := max(1, w.bytes/w.n)
		gap, most := uint32(rowGap/average), uint32(max(1, rowBytes/average))
		for r := range w.chunks.Ranges(gap, most) {
			rows = append(rows, chunkRow{x, r, average * int64(w.chunks.Count(r)), w.path})
		}
	}
	slices.SortFunc(rows, func(a, b chunkRow) int {
		return cmp.Or(a.xorb.Compare(b.xorb), cmp.Compare(a.chunks.Start, b.chunks.Start))
	})
	return rows
}

// keepChunks keeps the packed chunks of one file, and says whether all were there before.
func (w *warming) keepChunks(ctx context.Context, c warmFile, read func(n int64)) (there bool, err error) {
	f, err := w.s.reader.Open(ctx, c.id)
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
		for terms := range slices.Chunk(group, roundTerms) {
			before, err := w.keepTerms(ctx, c.path, terms, done)
			if err != nil {
				return false, err
			}
			there = there && before
		}
	}
	return there, nil
}

// keepTerms keeps the packed chunks of terms, and says whether all were there before.
func (w *warming) keepTerms(ctx context.Context, path string, terms []codec.Term, done func(n int64)) (there bool, err error) {
	for try := range warmTries {
		missing := wishes{}
		if !w.add(missing, path, terms) {
			return try == 0, nil
		}
		lost, err := w.bring(ctx, missing.rows(), done)
		if err == nil && w.add(wishes{}, path, terms) {
			err = lost
		}
		if err != nil {
			return false, err
		}
	}
	if w.add(wishes{}, path, terms) {
		return false, cmp.Or(w.s.disk.WriteErr(), errNotKept)
	}
	return false, nil
}

// fits says whether the terms of a file hold as many bytes as its entry says.
func (c warmFile) fits(size int64) error {
	if size != c.size {
		return codec.Corrupt("terms", 0, "hold %d bytes, the catalog says %d", size, c.size)
	}
	return nil
}

// bring has rows put on disk, many at a time, and calls done with the bytes of each. It
// returns what is lost of them, because it is damaged or not there, which is the error of
// whoever wants that, and why no others could be had either.
func (w *warming) bring(ctx context.Context, rows []chunkRow, done func(n int64)) (lost, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		mu    sync.Mutex
		going sync.WaitGroup
	)
	for _, row := range rows {
		room := min(max(row.bytes, rowRoom), roomBytes)
		if w.room.Acquire(ctx, room) != nil {
			break
		}
		going.Go(func() {
			defer w.room.Release(room)
			err := w.bringRow(ctx, row)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil, w.s.disk.WriteErr() != nil: // who keeps the files is told the same
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

// bringRow has a row put on disk, and what came damaged asked for again.
func (w *warming) bringRow(ctx context.Context, row chunkRow) error {
	c := w.s.cache
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
