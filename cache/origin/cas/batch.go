package cas

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// batchIDs bounds a batch. The ids are in the address of the request, which many servers limit to 8 KiB.
const batchIDs = 100

// inBatches requests the plans of files together, where the server supports it. It returns the
// files that it did not yield.
func (c *Client) inBatches(ctx context.Context, ids []codec.FileID, unknown []int, yield func(i int, fi *shard.FileInfo, err error)) (left []int) {
	h, err := c.api(ctx)
	if err != nil || len(unknown) < 2 {
		return unknown
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	for group := range slices.Chunk(unknown, batchIDs) {
		if h.noBatch.isAfter(c.now()) || !c.acquire(ctx) {
			mu.Lock()
			left = append(left, group...)
			mu.Unlock()
			continue
		}
		running.Go(func() {
			rest := c.yieldBatch(ctx, h, ids, group, yield)
			<-c.batches
			mu.Lock()
			defer mu.Unlock()
			left = append(left, rest...)
		})
		if !h.yesBatch.Load() {
			running.Wait() // the first batch shows whether the server supports it
		}
	}
	running.Wait()
	return left
}

// acquire waits for a slot of FileInfos, and reports whether there is one before ctx ends.
func (c *Client) acquire(ctx context.Context) bool {
	select {
	case c.batches <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// yieldBatch requests the plans of a batch. It returns the files that it did not yield, for example
// because the server did not describe them, or after a panic.
func (c *Client) yieldBatch(ctx context.Context, h *host, ids []codec.FileID, group []int, yield func(i int, fi *shard.FileInfo, err error)) (left []int) {
	rest := group // neither yielded nor in left
	defer func() { left = append(left, rest...) }()
	var failed error
	defer flight.Guard(&failed)
	files := make([]codec.Hash, 0, len(group))
	for _, i := range group {
		files = append(files, ids[i].File)
	}
	slices.SortFunc(files, codec.Hash.Compare)
	files = slices.Compact(files)
	r, plans, err := c.batch(ctx, files)
	switch status := code(err); {
	case err == nil:
		h.yesBatch.Store(true)
	case errors.Is(err, origin.ErrNotFound) && !h.yesBatch.Load(), status == http.StatusBadRequest, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		h.noBatch.set(c.now().Add(rememberFor))
		return nil
	default: // single requests report the errors
		return nil
	}
	c.mu.Lock()
	c.batchSeq++
	q := query{batch: c.batchSeq}
	c.mu.Unlock()
	c.addPlan(c.newPlan(q, files, r))
	for _, i := range group {
		var fi *shard.FileInfo
		if p := plans[ids[i].File]; p != nil && len(p.Terms) > 0 {
			fi = c.putInfo(&shard.FileInfo{File: ids[i].File, Terms: p.Terms})
		}
		if rest = rest[1:]; fi == nil {
			left = append(left, i)
			continue
		}
		yield(i, fi, nil)
	}
	return left
}

// batch requests the plans of files. The reply has the terms of all in the order of the files.
func (c *Client) batch(ctx context.Context, files []codec.Hash) (*reply, map[codec.Hash]*Plan, error) {
	var path strings.Builder
	for i, file := range files {
		if i > 0 {
			path.WriteByte('&')
		}
		path.WriteString("file_id=" + file.String())
	}
	var plans map[codec.Hash]*Plan
	k := names.Key(fmt.Sprintf("plans of %d files", len(files)))
	r, err := c.request(ctx, k, "/v1/reconstructions?"+path.String(), nil, func(b []byte) (_ *Plan, err error) {
		if plans, err = DecodeBatch(b); err != nil {
			return nil, err
		}
		all := new(Plan)
		for _, file := range files {
			if p := plans[file]; p != nil {
				all.Terms, all.Fetch = append(all.Terms, p.Terms...), p.Fetch
			}
		}
		return all, nil
	})
	return r, plans, err
}
