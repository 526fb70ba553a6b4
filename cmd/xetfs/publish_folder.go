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
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// openStream prepares to read FOLDER for a publish.
func (p *publishing) openStream(ctx context.Context, b *writer.Session, old *statcache.File, update *statcache.Update) error {
	var err error
	p.known, err = origin.NewKnown(ctx, p.store, p.knownOptions())
	if err != nil {
		return fmt.Errorf("%s: %w", p.storePath, err)
	}
	return p.newStream(streamParts{
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

// streamParts are what a folderStream needs of the store.
type streamParts struct {
	known    pack.Known
	sink     pack.Sink
	hasShard func(context.Context, codec.Hash) (bool, error)
	old      *statcache.File
	update   *statcache.Update
}

// newStream wires up a folderStream.
func (p *publishing) newStream(parts streamParts) error {
	own, err := p.ownFolders()
	if err != nil {
		return err
	}
	s := &folderStream{assembly: newAssembly(!p.noSHA), shards: newReusable(parts.hasShard), update: parts.update}
	p.packer = pack.NewWriter(parts.sink, pack.Options{
		Known: parts.known, Schemes: p.scheme.schemes(), NoSHA: p.noSHA, Created: p.started,
		Clock: func() time.Duration { return time.Since(p.started) },
		Done:  s.assembly.done,
	})
	s.lister = &lister{
		root: p.folder, ignore: p.ignore, own: own, owner: p.owner, noVersions: true, files: p.files,
		known: parts.old,
	}
	s.reader = &foundReader{
		owner: p.owner, xattrs: p.xattrs, noSHA: p.noSHA, checksum: p.checksum,
		files: p.files, bar: p.bar, shards: s.shards,
	}
	s.packer = &foundPacker{
		w: p.packer, files: p.files, out: s.assembly, report: p.report, root: p.folder, strict: p.strict, owner: p.owner, bar: p.bar,
	}
	p.stream = s
	return nil
}

// patterns returns what is left out.
func (p *publishing) patterns() (*ignore.Matcher, error) {
	g := new(ignore.Matcher)
	path := filepath.Join(p.folder, ignore.FileName)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case err == nil:
		defer f.Close()
		var st fileStat
		if err := p.files.fstat(int(f.Fd()), &st); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if st.kind() != unix.S_IFREG {
			return nil, fmt.Errorf("%s: %s, where patterns should be", path, kindOf(st.mode))
		}
		if _, err := g.ReadFrom(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, ui.Reason(err))
		}
	case errors.Is(err, os.ErrPermission) && unix.Access(p.folder, unix.X_OK) != nil:
		return nil, fmt.Errorf("%s: %w", p.folder, ui.Reason(err)) // the folder, not the file in it
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", path, ui.Reason(err))
	}
	for _, pattern := range p.exclude {
		if err := g.Add(pattern); err != nil {
			return nil, usageError{err}
		}
	}
	return g, nil
}

// ownFolders are those that do not belong into a tree wherever they lie.
func (p *publishing) ownFolders() ([]ownFolder, error) {
	own := []ownFolder{{what: "the store itself"}}
	paths := []string{p.storePath}
	if dir, err := cacheDir(); err == nil {
		own = append(own, ownFolder{what: "where publish remembers what it has read"})
		paths = append(paths, filepath.Join(dir, statCacheDir))
	}
	var found []ownFolder
	for i, path := range paths {
		var st fileStat
		err := p.files.stat(unix.AT_FDCWD, path, 0, &st)
		if isMachineError(err) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err == nil { // else there is nothing that could be published
			own[i].dev, own[i].inode = st.dev, st.inode
			found = append(found, own[i])
		}
	}
	return found, nil
}

// show keeps the bar up to date until the function that it returns is called.
func (p *publishing) show(ctx context.Context, head *names.Row) (hide func()) {
	if p.stream == nil {
		return func() {}
	}
	l := *p.stream.lister // before it begins
	l.known, l.files = nil, newWalkFiles(p.oneFileSystem)
	expect := func(ctx context.Context) {
		if head != nil {
			p.bar.Expect(head.Bytes) // about
		} else {
			measure(ctx, &l, p.bar)
		}
	}
	return p.bar.Follow(ctx, expect, func() string {
		c, s := p.report.so(), p.packer.Stats()
		return fmt.Sprintf("publish, %s, %s new", ui.Plural(c.entries, "entry"), ui.HumanSize(s.NewBytes))
	})
}
