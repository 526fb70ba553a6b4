package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/fs/catalog"
)

// openStream prepares to read FOLDER for a publish.
func (p *publishing) openStream(ctx context.Context, b *catalog.Publishing, record *publishRecord) error {
	var err error
	p.known, err = origin.NewKnown(ctx, p.store, p.knownOptions())
	if err != nil {
		return fmt.Errorf("%s: %w", p.storePath, err)
	}
	p.newStream(streamParts{
		known: b.Known(p.known), sink: b.Sink(origin.Sink(p.store)), hasShard: b.Has, record: record,
	})
	return nil
}

func (p *publishing) knownOptions() origin.KnownOptions {
	return origin.KnownOptions{
		Scratch: func() (origin.Scratch, error) { return newScratch(p.scratch) },
		Damaged: func(k names.Key, err error) { p.report.note(fmt.Sprintf("%s: not used: %v", k, err)) },
	}
}

// streamParts are what a folderStream needs of the store.
type streamParts struct {
	known    pack.Known
	sink     pack.Sink
	hasShard func(context.Context, codec.Hash) (bool, error)
	record   *publishRecord
}

// newStream wires up a folderStream.
func (p *publishing) newStream(parts streamParts) {
	s := &folderStream{assembly: newAssembly(!p.noSHA), shards: newReusable(parts.hasShard)}
	if parts.record != nil {
		s.record = parts.record.writer()
	}
	p.packer = pack.NewWriter(parts.sink, pack.Options{
		Known: parts.known, Schemes: p.scheme.schemes(), NoSHA: p.noSHA, Created: p.started,
		Clock: func() time.Duration { return time.Since(p.started) },
		Done:  s.assembly.done,
	})
	made := new(madeUp)
	s.lister = &lister{
		root: p.folder, ignore: p.ignore, own: p.ownFolders(), owner: p.owner, madeUp: made,
		record: parts.record.reader(), note: p.report.note,
	}
	s.reader = &foundReader{
		owner: p.owner, xattrs: p.xattrs, noSHA: p.noSHA, checksum: p.checksum,
		madeUp: made, bar: p.bar, shards: s.shards,
	}
	s.packer = &foundPacker{
		w: p.packer, out: s.assembly, report: p.report, root: p.folder, strict: p.strict, owner: p.owner, bar: p.bar,
	}
	p.stream = s
}

// patterns returns what is left out.
func (p *publishing) patterns() (*ignore, error) {
	g := new(ignore)
	path := filepath.Join(p.folder, ignoreFile)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case err == nil:
		defer f.Close()
		if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s: %s, where patterns should be", path, kindOf(info.Mode()))
		}
		if err := g.read(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, reason(err))
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	for _, pattern := range p.exclude {
		if err := g.add(pattern); err != nil {
			return nil, usageError{err}
		}
	}
	return g, nil
}

// ownFolders are those that do not belong into a tree wherever they lie.
func (p *publishing) ownFolders() []ownFolder {
	paths := []struct{ path, what string }{{p.storePath, "the store itself"}}
	if dir, err := cacheDir(); err == nil {
		paths = append(paths, struct{ path, what string }{filepath.Join(dir, recordsName), "where publish remembers what it has read"})
	}
	var own []ownFolder
	for _, one := range paths {
		var st unix.Stat_t
		if err := unix.Stat(one.path, &st); err == nil {
			own = append(own, ownFolder{uint64(st.Dev), st.Ino, one.what}) //nolint:unconvert // an int32 on some machines
		}
	}
	return own
}

// show keeps the bar up to date until the function that it returns is called.
func (p *publishing) show(ctx context.Context, head *names.Row) (hide func()) {
	if p.stream == nil {
		return func() {}
	}
	expect := func(ctx context.Context) {
		if head != nil {
			p.bar.expect(head.Bytes) // about
		} else {
			measure(ctx, p.folder, p.bar, p.ignore)
		}
	}
	return p.bar.follow(ctx, expect, func() string {
		c, s := p.report.so(), p.packer.Stats()
		return fmt.Sprintf("publish, %s, %s new", many(c.entries, "entry"), human(s.NewBytes))
	})
}
