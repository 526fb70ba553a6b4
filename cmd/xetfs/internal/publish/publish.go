package publish

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"path/filepath"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// Options describe a publish.
type Options struct {
	Symbol  string
	Version writer.PublishOptions
	Update  bool     // change the newest tree instead of replacing it
	Force   bool     // make a version even if the tree is the same
	Remove  []string // paths in the tree, with Update
	From    *Source  // publish this tree instead of a folder

	// Ingest has the folder, if there is one, and how to read it. Run sets the fields that
	// depend on the store.
	Ingest       ingest.Options
	StatCacheDir string // of package statcache
	StatCacheErr error  // why there is no StatCacheDir

	StorePath string                // for errors
	Store     origin.Store          // nil: a dry run without a store
	Sink      pack.Sink             // of Store; nil in a dry run
	Writer    *writer.Writer        // nil in a dry run
	Catalog   *catalog.StoreCatalog // of a dry run; nil: the store has none
	Mirror    mirror.Mirror         // of Store, with copies of its shards; nil: none
	TempFile  func() (dedup.TempFile, error)
}

// A Source is a version of a symbol.
type Source struct {
	Symbol string
	At     names.AsOf
}

// A Report receives the events of the folder.
type Report = ingest.Report

// A Result is the outcome of a publish.
type Result struct {
	Version   names.Row  // the new version, or the newest one if Published is false
	Before    *names.Row // the newest version before; nil: there was none
	Published bool
	Folder    Counts
	Excluded  int64 // paths that patterns left out
	Stats     pack.Stats
	Diff      Diff
}

// Counts are numbers of entries of a folder.
type Counts struct {
	Entries, Files, Bytes     int64
	Unchanged, UnchangedBytes int64 // files, by the stat cache
	Inline                    int64 // files with their content in the index
}

// A Diff counts the entries that differ between two trees.
type Diff struct{ Added, Changed, Removed int64 }

func (d *Diff) count(c page.Change) {
	switch {
	case c.Old == nil:
		d.Added++
	case c.New == nil:
		d.Removed++
	default:
		d.Changed++
	}
}

// ErrRemoveConflict means that a path is to be removed although the folder contains it.
var ErrRemoveConflict = errors.New("path is both in the folder and to be removed")

// A removeConflict is an ErrRemoveConflict.
type removeConflict struct{ path, folder string }

func (e *removeConflict) Error() string {
	return fmt.Sprintf("--remove %s: it is in %s, too; shall it stay or go?", e.path, e.folder)
}

// Is implements errors.Is.
func (*removeConflict) Is(target error) bool { return target == ErrRemoveConflict } //nolint:errorlint // see package errors

// An AbsentError means that the tree has no path that is to be removed.
type AbsentError struct {
	Tree catalog.Tree
	Path string
	Err  error
}

func (e *AbsentError) Error() string { return fmt.Sprintf("--remove %s: %v", e.Path, e.Err) }
func (e *AbsentError) Unwrap() error { return e.Err }

// A MissingError means that the store has lost content of unchanged files, which were not read. There is
// no new version. It is a codec.ErrCorrupt.
type MissingError struct {
	Missing []names.Key
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("the store lacks %s of unchanged files, such as %s", ui.Plural(int64(len(e.Missing)), "object"), e.Missing[0])
}

// Is implements errors.Is.
func (*MissingError) Is(target error) bool { return target == codec.ErrCorrupt } //nolint:errorlint // see package errors

// Run publishes, or determines what a publish would do if Options has no Writer. After an error the
// Result has only the versions: the new one may exist, and then Published is true.
func Run(ctx context.Context, o Options, r Report) (Result, error) {
	p := &publishRun{o: o, report: r}
	defer p.close()
	var res Result
	var err error
	switch {
	case o.Writer == nil:
		err = p.dry(ctx, &res)
	case o.From != nil:
		err = p.republish(ctx, &res)
	default:
		err = p.folder(ctx, &res)
	}
	if err != nil {
		return Result{Version: res.Version, Before: res.Before, Published: res.Published}, err
	}
	if p.in != nil {
		res.Stats, res.Excluded = p.in.Stats(), p.in.Excluded()
	}
	res.Folder = p.counted()
	return res, nil
}

// A publishRun is one call of Run.
type publishRun struct {
	o      Options
	report Report
	known  *dedup.Index
	in     *ingest.Ingest // of the folder; nil: none
	old    *statcache.File
	update *statcache.Update

	mu     sync.Mutex
	counts Counts // guarded by mu
}

func (p *publishRun) close() {
	if p.known != nil {
		_ = p.known.Close()
	}
	p.old.Close()
	p.update.Close()
}

// hasFolder reports whether a folder is read.
func (p *publishRun) hasFolder() bool { return len(p.o.Ingest.Folders) > 0 }

// Add implements ingest.Report.
func (p *publishRun) Add(e *ingest.Entry) {
	p.report.Add(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.counts
	c.Entries++
	if e.Type != page.File {
		return
	}
	c.Files++
	c.Bytes += e.Size
	if e.Inline != nil {
		c.Inline++
	}
	if e.Unchanged {
		c.Unchanged++
		c.UnchangedBytes += e.Size
	}
}

// Skip implements ingest.Report.
func (p *publishRun) Skip(path string, why error) { p.report.Skip(path, why) }

// Note implements ingest.Report.
func (p *publishRun) Note(text string) { p.report.Note(text) }

func (p *publishRun) counted() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// folder publishes the folder.
func (p *publishRun) folder(ctx context.Context, res *Result) error {
	s, err := p.o.Writer.Begin(ctx, p.o.Symbol, p.o.Version)
	if err != nil {
		return err
	}
	c := p.o.Writer.Catalog()
	p.openStatCache(c.Settings().ID, true)
	if p.hasFolder() {
		if err := p.openKnown(ctx); err != nil {
			return err
		}
		if err := p.findPlaces(ctx, s); err != nil {
			return err
		}
		if err := p.openIngest(s.Known(p.known), s.Sink(p.o.Sink), s.Has); err != nil {
			return err
		}
	}
	res.Before = s.Head()
	res.Version, err = p.tree(ctx, s)
	switch {
	case errors.Is(err, writer.ErrSame):
		res.Version = *res.Before
	case err != nil && p.in != nil && p.in.Err() != nil:
		return p.in.Err() // without the symbol: it is an error of the folder
	case err != nil:
		return err
	default:
		res.Published = true
	}
	if err := p.update.Replace(); err != nil {
		p.noteStatCache(err)
	}
	return p.compare(ctx, res)
}

// republish publishes the tree of another version.
func (p *publishRun) republish(ctx context.Context, res *Result) error {
	s, err := p.o.Writer.Begin(ctx, p.o.Symbol, p.o.Version)
	if err != nil {
		return err
	}
	row, err := p.o.Writer.Catalog().Resolve(ctx, p.o.From.Symbol, p.o.From.At)
	if err != nil {
		return err
	}
	res.Before = s.Head()
	if res.Before != nil && res.Before.Identity == row.Identity && !p.o.Force {
		res.Version = *res.Before
		return nil
	}
	if res.Version, err = s.Republish(ctx, row); err != nil {
		return err
	}
	res.Published = true
	return p.compare(ctx, res)
}

// openKnown opens the index of stored chunks.
func (p *publishRun) openKnown(ctx context.Context) (err error) {
	p.known, err = dedup.Open(ctx, p.o.Store, dedup.Options{
		Verify:   p.o.Ingest.Checksum,
		TempFile: p.o.TempFile,
		Mirror:   p.o.Mirror,
		Damaged:  func(k names.Key, err error) { p.Note(fmt.Sprintf("%s: not used: %v", k, err)) },
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.o.StorePath, err)
	}
	return nil
}

// findPlaces makes the folder use the places of files in the newest tree after a repack. The stat
// cache may have older ones.
func (p *publishRun) findPlaces(ctx context.Context, s *writer.Session) error {
	if !s.Repacked() || s.Head() == nil {
		return nil
	}
	newest, err := p.o.Writer.Catalog().OpenRow(ctx, p.o.Symbol, *s.Head())
	if err != nil {
		return nil //nolint:nilerr // the publish replaces a damaged tree
	}
	p.o.Ingest.Place = func(ctx context.Context, path string, known codec.FileID) (codec.FileID, error) {
		e, err := newest.Lookup(ctx, path)
		if ctx.Err() != nil {
			return known, ctx.Err()
		}
		if err == nil && e.ID.File == known.File {
			return e.ID, nil
		}
		return known, nil //nolint:nilerr // as above
	}
	return nil
}

// openIngest prepares to read the folder.
func (p *publishRun) openIngest(known pack.ChunkIndex, sink pack.Sink, hasShard func(context.Context, codec.Hash) (bool, error)) (err error) {
	o := p.o.Ingest
	o.Known, o.Update, o.HasShard = p.old, p.update, hasShard
	o.Sink, o.Pack.Known, o.Report = sink, known, p
	p.in, err = ingest.New(o)
	return err
}

// openStatCache opens the stat cache of the folder. Without one all files are read.
func (p *publishRun) openStatCache(id string, update bool) {
	if !p.hasFolder() {
		return
	}
	folder, err := filepath.EvalSymlinks(p.o.Ingest.Folders[0])
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err != nil {
		return
	}
	if err = p.o.StatCacheErr; err == nil {
		var path *statcache.Path
		if path, err = statcache.NewPath(p.o.StatCacheDir, id, p.o.Symbol, folder); err == nil {
			p.old = statcache.Open(path)
		}
		if err == nil && update {
			p.update, err = statcache.Create(path)
		}
	}
	if err != nil {
		p.noteStatCache(err)
	}
}

func (p *publishRun) noteStatCache(err error) {
	p.Note(fmt.Sprintf("all files will be read next time: %v", ui.Reason(err)))
}

// show shows the progress until the returned function is called.
func (p *publishRun) show(ctx context.Context, head *names.Row) (hide func()) {
	if p.in == nil {
		return func() {}
	}
	bar, expect := p.o.Ingest.Progress, p.in.Measure
	if head != nil {
		expect = func(context.Context) { bar.Expect(head.Bytes) } // approximately
	}
	return bar.Follow(ctx, expect, func() string {
		return fmt.Sprintf("publish, %s, %s new", ui.Plural(p.counted().Entries, "entry"), ui.HumanSize(p.in.Stats().NewBytes))
	})
}

// tree publishes the whole tree, or its changes. An unchanged tree is writer.ErrSame.
func (p *publishRun) tree(ctx context.Context, s *writer.Session) (names.Row, error) {
	head := s.Head()
	hide := p.show(ctx, head)
	defer hide()
	if !p.o.Update {
		entries := p.entries(ctx, s)
		if p.o.Force {
			return s.Replace(ctx, entries)
		}
		return s.ReplaceChanged(ctx, entries)
	}
	var tree catalog.Tree
	if head != nil {
		var err error
		if tree, err = p.o.Writer.Catalog().OpenRow(ctx, p.o.Symbol, *head); err != nil {
			return names.Row{}, err
		}
	} else if len(p.o.Remove) > 0 {
		return names.Row{}, p.nothingToRemove()
	}
	var entries iter.Seq2[page.Entry, error]
	if p.in != nil {
		entries = p.entries(ctx, s)
	}
	changes, err := p.changes(ctx, tree, entries)
	switch {
	case err != nil:
		return names.Row{}, err
	case len(changes) == 0 && !p.o.Force:
		return names.Row{}, writer.ErrSame
	}
	return s.Update(ctx, changes)
}

func (p *publishRun) nothingToRemove() error {
	return fmt.Errorf("%s has no version that --remove could take something from: %w", p.o.Symbol, iofs.ErrNotExist)
}

// entries returns the entries of the folder. They end with an error if the store has lost content of
// unchanged files.
func (p *publishRun) entries(ctx context.Context, s *writer.Session) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for e, err := range p.in.Entries(ctx) {
			if !yield(e, err) {
				return
			}
		}
		if err := p.checkContent(ctx, s); err != nil {
			yield(page.Entry{}, err)
		}
	}
}

// checkContent returns a MissingError if the store has lost content that was not read.
func (p *publishRun) checkContent(ctx context.Context, s *writer.Session) error {
	missing, err := s.Missing(ctx, p.in.Shards())
	if err != nil || len(missing) == 0 {
		return err
	}
	return &MissingError{missing}
}

// compare counts the differences to the version before. The cost is proportional to their
// number.
func (p *publishRun) compare(ctx context.Context, res *Result) error {
	switch {
	case !res.Published:
		return nil
	case res.Before == nil:
		res.Diff.Added = res.Version.Entries
		return nil
	}
	for change, err := range p.o.Writer.Catalog().Changes(ctx, *res.Before, res.Version) {
		if err != nil {
			return fmt.Errorf("version %d is published; what has changed is not known: %w", res.Version.Number, err)
		}
		res.Diff.count(change)
	}
	return nil
}
