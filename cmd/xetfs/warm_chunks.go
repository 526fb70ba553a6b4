package main

import (
	"context"
	"errors"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// Chunks are asked for in rows of so many, so many rows of a file at a time.
const (
	warmRow  = 64
	warmRows = 4
)

// warmTries is how often what is missing is asked for. The disk may not take everything
// at once.
const warmTries = 3

var errNotKept = errors.New("the disk cache does not keep what was fetched")

// keepChunks keeps the packed chunks of a file, and says whether all were there before.
func (w *warming) keepChunks(ctx context.Context, e *page.Entry, read func(n int64)) (there bool, err error) {
	f, err := w.s.openFile(ctx, e)
	if err != nil {
		return false, err
	}
	for try := range warmTries {
		rows := w.missing(f.Terms())
		if len(rows) == 0 {
			return try == 0, nil
		}
		if err := w.keepRows(ctx, rows, read); err != nil {
			return false, err
		}
		read = func(int64) {} // it has counted them
	}
	if len(w.missing(f.Terms())) > 0 {
		return false, firstErr(w.s.disk.Refuses(), errNotKept)
	}
	return false, nil
}

// A chunkRow is some chunks of a xorb.
type chunkRow struct {
	xorb   codec.Hash
	chunks codec.ChunkRange
}

// missing returns the chunks of terms that are not kept.
func (w *warming) missing(terms []codec.Term) (rows []chunkRow) {
	for _, t := range terms {
		for _, r := range w.s.cache.Missing(t.Xorb, t.Chunks) {
			for ; r.Start < r.End; r.Start += warmRow {
				rows = append(rows, chunkRow{t.Xorb, codec.ChunkRange{Start: r.Start, End: min(r.End, r.Start+warmRow)}})
			}
		}
	}
	return rows
}

// keepRows fetches chunks, some rows at a time.
func (w *warming) keepRows(ctx context.Context, rows []chunkRow, read func(n int64)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		mu      sync.Mutex
		workers sync.WaitGroup
	)
	jobs := make(chan chunkRow)
	for range min(warmRows, len(rows)) {
		workers.Go(func() {
			for row := range jobs {
				n, err := w.keepRow(ctx, row)
				if err != nil {
					stop(err)
					continue
				}
				mu.Lock()
				read(n)
				mu.Unlock()
			}
		})
	}
	for _, row := range rows {
		jobs <- row
	}
	close(jobs)
	workers.Wait()
	return context.Cause(ctx)
}

// keepRow fetches a row, has it compared with its hashes, and waits until it is kept. It
// returns how many bytes it unpacks to.
func (w *warming) keepRow(ctx context.Context, row chunkRow) (n int64, err error) {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err = w.fetchRow(ctx, row)
		if err == nil {
			return n, w.s.disk.Flush()
		}
		if !w.s.cache.Again(row.xorb, err, try) {
			return 0, err
		}
		ctx = origin.Fresh(ctx)
	}
}

// fetchRow fetches a row. Once all of it was unpacked, the cache keeps it.
func (w *warming) fetchRow(ctx context.Context, row chunkRow) (n int64, err error) {
	run, err := w.s.cache.Run(ctx, row.xorb, row.chunks)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, codec.MaxChunkSize)
	for i := row.chunks.Start; i < row.chunks.End; i++ {
		size := run.Size(i)
		if err := run.Unpack(i, buf[:size]); err != nil {
			return 0, err
		}
		n += int64(size)
	}
	return n, nil
}
