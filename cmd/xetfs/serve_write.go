package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/commits"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// checkWritable returns an error for flags that contradict --writable.
func (o *serveOptions) checkWritable(source string) error {
	switch {
	case !o.writable && o.quota.given():
		return usageError{errors.New("--quota: only a server with --writable accepts uploads")}
	case !o.writable:
		return nil
	case o.plain || o.bare:
		return usageError{errors.New("--writable: uploads become versions of a catalog, so --plain and --bare do not fit")}
	case o.public:
		return usageError{errors.New("--writable and --public: every client could change everything; use --token-file")}
	}
	return stack.CheckNewStore(source)
}

// noteTokens warns about tokens that cannot change what they seem to.
func (o *serveOptions) noteTokens(a serve.Access, log *slog.Logger) {
	if !o.writable {
		return
	}
	for _, problem := range a.WriteProblems() {
		log.Warn(fmt.Sprintf("--token-file %s: %s", o.tokenFile, problem))
	}
}

// openWritable opens a STORE, which is created if necessary, and then its site.
func (o *serveOptions) openWritable(ctx context.Context, store string, remote stack.Remote) (*serve.Site, *stack.Source, func(), error) {
	if err := stack.CheckWriteStore(ctx, store, ""); err != nil {
		return nil, nil, nil, err
	}
	write := remote
	write.Limits = fetch.Limits{} // an upload of a xorb may take long
	ps, err := stack.OpenPublishStore(ctx, store, write)
	if err != nil {
		return nil, nil, nil, err
	}
	site, src, closeSource, err := o.openSite(ctx, store, remote)
	if err != nil {
		return nil, nil, nil, errors.Join(err, ps.Close())
	}
	closeUploads, err := o.acceptUploads(ctx, site, src, ps, remote)
	if err != nil {
		closeSource()
		return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", store, err), ps.Close())
	}
	return site, src, func() {
		closeUploads()
		closeSource()
		_ = ps.Close() // all writes are durable
	}, nil
}

// acceptUploads adds the write side to a site.
func (o *serveOptions) acceptUploads(ctx context.Context, site *serve.Site, src *stack.Source, ps *stack.PublishStore, remote stack.Remote) (stop func(), err error) {
	leases := ps.Writer.OpenLeases(0)
	var item func(context.Context, names.Key) (origin.Item, error)
	if d, ok := ps.WriteStore.(*dir.Store); ok {
		item = d.Item
	}
	uploads, err := upload.Open(ctx, ps, upload.Options{
		Item:   item,
		Source: src.Infos(), Leases: leases, TempFile: ps.TempFile, Mirror: ps.Mirror, Logger: remote.Log,
		Key:   sha256.Sum256([]byte("xetfs answers of " + ps.Writer.Catalog().Settings().ID)),
		Quota: int64(o.quota.value),
	})
	if err != nil {
		return nil, err
	}
	signer, changed := site.Xet.Signer(), make(chan struct{}, 1)
	site.Writer = serve.NewWriter(serve.WriterOptions{
		Repos: site.Repos.(*serve.Repos), Content: site.Content, Uploads: uploads, Signer: signer, //nolint:forcetypeassert // of openSite
		Maker:   commits.NewMaker(commits.Options{Writer: ps.Writer, Uploads: uploads, ID: serve.CommitID}),
		Ignores: ignoredBy,
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default: // one is pending
			}
		},
	})
	site.Xet.Accept(uploads, site.Writer)
	renew, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { leases.Run(renew) })
	wg.Go(func() { ps.RunListing(renew, changed, func(text string) { remote.Log.Warn(text) }) })
	return func() {
		cancel()
		wg.Wait()
		_ = uploads.Close() // scratch files alone
	}, nil
}

var (
	_ casserve.Uploads = (*upload.Store)(nil)
	_ serve.Uploads    = (*upload.Store)(nil)
	_ upload.Guard     = (*writer.Leases)(nil)
)

// ignoredBy returns a function that reports whether patterns exclude a path, or a folder above it.
func ignoredBy(patterns string) (func(path string) bool, error) {
	var m ignore.Matcher
	if _, err := m.ReadFrom(strings.NewReader(patterns)); err != nil {
		return nil, err
	}
	return func(path string) bool {
		names := strings.Split(path, "/")
		for i, name := range names {
			if m.Excludes(names[:i], name, i < len(names)-1) {
				return true
			}
		}
		return false
	}, nil
}
