package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/verify"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/reconstruct"
)

// A verifyTarget is a store that is opened for a check.
type verifyTarget struct {
	verify.Target
	catalog origin.Store // the objects under the keys of a catalog
	closers []func()
}

func (t *verifyTarget) close() {
	for _, c := range slices.Backward(t.closers) {
		c()
	}
}

// openTarget opens the shards and xorbs in a folder or a remote store.
func openTarget(ctx context.Context, source string, remote stack.Remote) (*verifyTarget, error) {
	t := &verifyTarget{}
	open := t.openFolder
	if stack.IsRemote(source) {
		open = func(ctx context.Context, address string) error { return t.openRemote(ctx, address, remote) }
	}
	err := open(ctx, source)
	if err == nil {
		err = t.openReader()
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// openReader opens the layers above the store.
func (t *verifyTarget) openReader() error {
	b := stack.DivideMemory(stack.DefaultMemory)
	log := slog.New(slog.DiscardHandler) // the report has every fault
	c, err := cache.New(objects.New(t.Store, objects.Options{InfoBytes: b.Infos}), b.CacheOptions(false, log))
	if err != nil {
		return err
	}
	t.closers = append(t.closers, func() { c.Close() })
	t.Reader = reconstruct.New(c, reconstruct.Options{Terms: b.Terms})
	return nil
}

// openFolder opens every copy of an object in a folder.
func (t *verifyTarget) openFolder(ctx context.Context, folder string) error {
	if err := stack.CheckFolder(folder); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	t.closers = append(t.closers, func() { root.Close() })
	store, err := dir.OpenBare(ctx, folder)
	if err != nil {
		return err
	}
	t.closers = append(t.closers, func() { store.Close() })
	keyed, err := dir.OpenReadOnly(folder)
	if err != nil {
		return err
	}
	t.closers = append(t.closers, func() { keyed.Close() })
	t.Store, t.catalog = store, keyed
	t.Open = func(_ context.Context, o verify.Object) (verify.ReaderAtCloser, error) {
		file, err := root.Open(o.Path)
		if err != nil {
			return nil, ui.Reason(err)
		}
		return file, nil
	}
	files, err := store.Files(ctx)
	for _, f := range files {
		t.Objects = append(t.Objects, verify.Object{Path: f.Path, Kind: f.Kind, Hash: f.Hash, Named: f.Named, Size: f.Size, Err: f.Err})
	}
	return err
}

// openRemote opens the objects that a remote store lists.
func (t *verifyTarget) openRemote(ctx context.Context, address string, remote stack.Remote) error {
	log := slog.New(slog.DiscardHandler)
	store, err := stack.OpenRemote(address, remote)
	if err != nil {
		return err
	}
	t.closers = append(t.closers, func() { store.Close() })
	t.Remote = verify.NewXorbCache(store, stack.LimitMemory(verify.XorbCacheMemory, log))
	t.Store, t.catalog = t.Remote, store
	t.Open = func(ctx context.Context, o verify.Object) (verify.ReaderAtCloser, error) {
		return remoteObject{origin.SequentialReader(ctx, store, names.Key(o.Path), o.Size)}, nil
	}
	for _, prefix := range []string{names.ShardPrefix, names.XorbPrefix} {
		for item, err := range store.List(ctx, prefix, "") {
			if err != nil {
				return fmt.Errorf("%s: %w", address, err)
			}
			if k, err := names.ParseKey(item.Key); err == nil {
				t.Objects = append(t.Objects, verify.Object{Path: string(item.Key), Kind: k.Kind, Hash: codec.Hash(k.Hash), Named: true, Size: item.Size})
			}
		}
	}
	return nil
}

type remoteObject struct{ io.ReaderAt }

// Close implements io.Closer.
func (remoteObject) Close() error { return nil }
