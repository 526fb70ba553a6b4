package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A place is where a verifier finds shards and xorbs.
type place struct {
	store readStore  // the objects, for reading files
	files []dir.File // each copy
	open  func(ctx context.Context, f dir.File) (readerAtCloser, error)
	close func()

	held *heldStore // store, if it is far; else nil
}

type readerAtCloser interface {
	io.ReaderAt
	io.Closer
}

// openPlace finds the shards and xorbs in a folder or on a web server. waiting is that of
// origin.Limits.
func openPlace(ctx context.Context, source string, waiting func()) (*place, error) {
	if isWeb(source) {
		return openWebPlace(ctx, source, waiting)
	}
	return openFolderPlace(ctx, source)
}

func openFolderPlace(ctx context.Context, folder string) (*place, error) {
	if err := checkFolder(folder); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	store, err := dir.OpenBare(ctx, folder)
	if err != nil {
		root.Close()
		return nil, err
	}
	p := &place{store: store, close: func() { store.Close(); root.Close() }}
	p.open = func(_ context.Context, f dir.File) (readerAtCloser, error) {
		file, err := root.Open(f.Path)
		if err != nil {
			return nil, ui.Reason(err)
		}
		return file, nil
	}
	if p.files, err = store.Files(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// openWebPlace finds what the listing of a store says: its data, one copy of each.
func openWebPlace(ctx context.Context, address string, waiting func()) (*place, error) {
	log := slog.New(slog.DiscardHandler)
	store, err := openWeb(address, log, origin.Limits{Waiting: waiting})
	if err != nil {
		return nil, err
	}
	p := &place{held: newHeldStore(store, limitMemory(heldMemory, log)), close: func() { store.Close() }}
	p.store = p.held
	p.open = func(ctx context.Context, f dir.File) (readerAtCloser, error) {
		return farObject{origin.SequentialReader(ctx, store, names.Key(f.Path), f.Size)}, nil
	}
	for _, prefix := range []string{names.ShardPrefix, names.XorbPrefix} {
		for item, err := range store.List(ctx, prefix, "") {
			if err != nil {
				p.close()
				return nil, fmt.Errorf("%s: %w", address, err)
			}
			if k, err := names.ParseKey(item.Key); err == nil {
				p.files = append(p.files, dir.File{
					Path: string(item.Key), Kind: k.Kind, Hash: codec.Hash(k.Hash), Named: true,
					Size: item.Size, Modified: item.Modified,
				})
			}
		}
	}
	return p, nil
}

type farObject struct{ io.ReaderAt }

// Close implements io.Closer.
func (farObject) Close() error { return nil }
