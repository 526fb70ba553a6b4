package stack

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/reconstruct"
)

// Copies is a SOURCE with each copy of each shard and xorb, for a check of all of them.
type Copies struct {
	Files   []dir.File
	Open    func(ctx context.Context, path string, size int64) (ReaderAtCloser, error)
	Store   ReadStore // the same objects under their keys
	Catalog ReadStore // the objects under the keys of a catalog
	closers []func() error
}

// A ReaderAtCloser reads one copy.
type ReaderAtCloser interface {
	io.ReaderAt
	io.Closer
}

// OpenCopies opens the shards and xorbs in a folder or a remote store.
func OpenCopies(ctx context.Context, source string, remote Remote) (*Copies, error) {
	c := new(Copies)
	var err error
	if IsAddress(source) {
		err = c.openRemote(ctx, source, remote)
	} else {
		err = c.openFolder(ctx, source)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// openFolder opens every copy of an object in a folder.
func (c *Copies) openFolder(ctx context.Context, folder string) error {
	if err := checkFolder(folder); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, root.Close)
	store, err := dir.OpenBare(ctx, folder)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, store.Close)
	keyed, err := dir.OpenReadOnly(folder)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, keyed.Close)
	c.Store, c.Catalog = store, keyed
	c.Open = func(_ context.Context, path string, _ int64) (ReaderAtCloser, error) {
		file, err := root.Open(path)
		if err != nil {
			return nil, ui.Reason(err)
		}
		return file, nil
	}
	c.Files, err = store.Files(ctx)
	return err
}

// openRemote opens the objects that a remote store lists.
func (c *Copies) openRemote(ctx context.Context, address string, remote Remote) error {
	store, err := OpenRemote(address, remote)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, store.Close)
	c.Store, c.Catalog = store, store
	c.Open = func(ctx context.Context, path string, size int64) (ReaderAtCloser, error) {
		return remoteCopy{origin.SequentialReader(ctx, store, names.Key(path), size)}, nil
	}
	for _, prefix := range []string{names.ShardPrefix, names.XorbPrefix} {
		for item, err := range store.List(ctx, prefix, "") {
			if err != nil {
				return fmt.Errorf("%s: %w", address, err)
			}
			if k, err := names.ParseKey(item.Key); err == nil {
				c.Files = append(c.Files, dir.File{Path: string(item.Key), Kind: k.Kind, Hash: codec.Hash(k.Hash), Named: true, Size: item.Size})
			}
		}
	}
	return nil
}

type remoteCopy struct{ io.ReaderAt }

// Close implements io.Closer.
func (remoteCopy) Close() error { return nil }

// OpenReader opens the layers above a store with the same objects. Close closes them.
func (c *Copies) OpenReader(store origin.Store) (*reconstruct.Reader, error) {
	b := DivideMemory(DefaultMemory)
	chunks, err := cache.New(objects.New(store, objects.Options{InfoBytes: b.Infos}), b.cacheOptions(false))
	if err != nil {
		return nil, err
	}
	r := reconstruct.New(chunks, reconstruct.Options{Ahead: b.whole(), Terms: b.Terms})
	c.closers = append(c.closers, chunks.Close, r.Close) // the last one is called first
	return r, nil
}

// Close closes all layers.
func (c *Copies) Close() {
	for _, closer := range slices.Backward(c.closers) {
		_ = closer()
	}
}
