package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// openIngest prepares to read FOLDER for a publish.
func (p *publishing) openIngest(ctx context.Context, b *writer.Session, old *statcache.File, update *statcache.Update) error {
	var err error
	p.known, err = origin.NewKnown(ctx, p.store, p.knownOptions())
	if err != nil {
		return fmt.Errorf("%s: %w", p.storePath, err)
	}
	return p.newIngest(streamParts{
		known: b.Known(p.known), sink: b.Sink(origin.Sink(p.store)), hasShard: b.Has, old: old, update: update,
	})
}

func (p *publishing) knownOptions() origin.KnownOptions {
	return origin.KnownOptions{
		Verify:  p.checksum,
		Scratch: func() (origin.Scratch, error) { return newScratch(p.scratch) },
		Damaged: func(k names.Key, err error) { p.report.Note(fmt.Sprintf("%s: not used: %v", k, err)) },
	}
}

// streamParts are what an ingest needs of the store.
type streamParts struct {
	known    pack.Known
	sink     pack.Sink
	hasShard func(context.Context, codec.Hash) (bool, error)
	old      *statcache.File
	update   *statcache.Update
}

// newIngest prepares to read FOLDER.
func (p *publishing) newIngest(parts streamParts) error {
	own := []ingest.OwnFolder{{Path: p.storePath, What: "the store itself"}}
	if dir, err := cacheDir(); err == nil {
		own = append(own, ingest.OwnFolder{Path: filepath.Join(dir, statCacheDir), What: "where publish remembers what it has read"})
	}
	var err error
	p.in, err = ingest.New(ingest.Options{
		Folders: []string{p.folder}, Ignore: p.ignore, Own: own,
		OneFileSystem: p.oneFileSystem, Owner: p.owner, Xattrs: p.xattrs, Strict: p.strict, Checksum: p.checksum,
		Known: parts.old, Update: parts.update, HasShard: parts.hasShard,
		Sink: parts.sink,
		Pack: pack.Options{
			Known: parts.known, Schemes: p.scheme.schemes(), NoSHA: p.noSHA, Created: p.started,
			Clock: func() time.Duration { return time.Since(p.started) },
		},
		Report: p.report, Progress: p.bar, Consequence: "nothing was published", Fault: p.fault,
	})
	return err
}

// patterns returns the patterns of FOLDER and those of --exclude.
func (p *publishing) patterns() (*ignore.Matcher, error) {
	m, err := ingest.ReadIgnoreFile(p.folder)
	if err != nil {
		return nil, err
	}
	for _, pattern := range p.exclude {
		if err := m.Add(pattern); err != nil {
			return nil, usageError{err}
		}
	}
	return m, nil
}

// show shows the progress until the returned function is called.
func (p *publishing) show(ctx context.Context, head *names.Row) (hide func()) {
	if p.in == nil {
		return func() {}
	}
	expect := p.in.Measure
	if head != nil {
		expect = func(context.Context) { p.bar.Expect(head.Bytes) } // approximately
	}
	return p.bar.Follow(ctx, expect, func() string {
		c, s := p.report.so(), p.in.Stats()
		return fmt.Sprintf("publish, %s, %s new", ui.Plural(c.entries, "entry"), ui.HumanSize(s.NewBytes))
	})
}
