package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// runPublish publishes.
func runPublish(cmd *cobra.Command, o publishOptions) error {
	limitMemory(packMemory, newNotes(cmd.ErrOrStderr(), cmd.CommandPath()))
	debug.SetGCPercent(publishPercent)
	p := newPublishing(cmd, o)
	ctx := cmd.Context()
	return ui.UntilCanceled(ctx, func() error { return p.run(ctx) })
}

func newPublishing(cmd *cobra.Command, o publishOptions) *publishing {
	bar := ui.NewProgress(cmd.ErrOrStderr(), "publish")
	return &publishing{
		cmd: cmd, publishOptions: o, bar: bar, started: time.Now(),
		report: newPublishReport(cmd, o.asJSON, bar),
	}
}

// publishPercent is the Go heap's room beside what lives in it. Less than usual, because
// that is mostly the buffers of the packer.
const publishPercent = 40

// A publishing is one run of publish.
type publishing struct {
	publishOptions
	cmd     *cobra.Command
	report  *publishReport
	bar     *ui.Progress
	started time.Time
	ignore  *ignore.Matcher
	fault   func(call string) error // see ingest.Options

	store   *pageCounter
	scratch string // folder for temporary files
	known   *origin.Known
	in      *ingest.Ingest // of FOLDER
}

// A pageCounter is a store that counts the index pages that are written.
type pageCounter struct {
	*dir.Keyed
	pages atomic.Int64
}

// PutIfAbsent implements origin.WriteStore.
func (s *pageCounter) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	tag, err := s.Keyed.PutIfAbsent(ctx, k, value)
	if p, bad := names.ParseKey(k); err == nil && bad == nil && p.Kind == names.PageKind {
		s.pages.Add(1)
	}
	return tag, err
}

func (p *publishing) run(ctx context.Context) error {
	if p.folder != "" {
		var err error
		if p.ignore, err = p.patterns(); err != nil {
			return err
		}
	}
	switch {
	case p.dryRun:
		return p.runDry(ctx)
	case p.from != "":
		return p.runFrom(ctx)
	}
	publisher, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	r, err := p.publishFolder(ctx, publisher)
	if err == nil {
		writeListing(ctx, p.store.Keyed, nil, p.report.Note)
	}
	r.pages = p.store.pages.Load()
	return p.finish(r, err)
}

// nestedUsage is the usage error for a NestedError.
func nestedUsage(err error) error {
	return usageError{fmt.Errorf("%w; publish to another symbol, or delete one of the two first (xetfs delete)", err)}
}

// finish reports what came out.
func (p *publishing) finish(r publishResult, err error) error {
	switch {
	case errors.As(err, new(*catalog.NestedError)):
		return nestedUsage(err)
	case errors.Is(err, writer.ErrSwept):
		return fmt.Errorf("%w; publish once more", err)
	case errors.As(err, new(*origin.LocalError)):
		return fmt.Errorf("%s: %w", p.storePath, err)
	case errors.Is(err, origin.ErrUnavailable):
		return fmt.Errorf("%s: %v", p.storePath, err) //nolint:errorlint // it is there, and cannot be written
	case err != nil:
		return err
	}
	if r.published {
		p.report.notePrivate(p.storePath)
	}
	r.symbol, r.took = p.symbol, time.Since(p.started)
	return p.report.finish(r)
}

// open opens the store, and makes a catalog in it if there is none.
func (p *publishing) open(ctx context.Context) (*writer.Writer, error) {
	p.scratch = filepath.Join(p.storePath, "tmp")
	if err := checkWritable(p.scratch); err != nil {
		return nil, err
	}
	keyed, err := dir.Open(p.storePath)
	if err != nil {
		return nil, err
	}
	p.store = &pageCounter{Keyed: keyed}
	if _, err = keyed.RemoveStray(strayAge); err == nil {
		log := newNotes(p.cmd.ErrOrStderr(), p.cmd.CommandPath())
		var publisher *writer.Writer
		if publisher, err = writer.Open(ctx, p.store, catalog.RecentPages(origin.Pages(p.store)), writer.Options{Logger: log}); err == nil {
			return publisher, nil
		}
	}
	keyed.Close()
	return nil, fmt.Errorf("%s: %w", p.storePath, err)
}

func (p *publishing) close() {
	if p.known != nil {
		_ = p.known.Close()
	}
	p.store.Close()
}

// begin begins a publish. What the store holds is looked at only afterwards.
func (p *publishing) begin(ctx context.Context, publisher *writer.Writer) (*writer.Session, error) {
	return publisher.Begin(ctx, p.symbol, writer.PublishOptions{
		IfVersion: p.ifVersion.number, Writer: publishWriter(), Message: p.message, Labels: p.labels,
		Verify: p.checksum,
	})
}

// publishFolder publishes FOLDER.
func (p *publishing) publishFolder(ctx context.Context, publisher *writer.Writer) (publishResult, error) {
	b, err := p.begin(ctx, publisher)
	if err != nil {
		return publishResult{}, err
	}
	settings := publisher.Catalog().Settings()
	old, update := p.openStatCache(settings.ID)
	defer old.Close()
	defer update.Close()
	if p.folder != "" {
		if err := p.openIngest(ctx, b, old, update); err != nil {
			return publishResult{}, err
		}
	}
	r := publishResult{before: b.Head(), published: true, listed: p.folder != ""}
	r.row, err = p.publishTree(ctx, publisher, b)
	switch {
	case errors.Is(err, writer.ErrSame):
		r.row, r.published = *r.before, false
		if err := p.checkUnchanged(ctx, b); err != nil {
			return publishResult{}, err
		}
	case err != nil && p.in != nil && p.in.Err() != nil:
		return publishResult{}, p.in.Err() // of FOLDER: it has nothing to do with the symbol
	case err != nil:
		return publishResult{}, err
	}
	if err := update.Replace(); err != nil {
		p.report.Note(fmt.Sprintf("all files will be read next time: %v", ui.Reason(err)))
	}
	if p.in != nil {
		r.stats, r.excluded = p.in.Stats(), p.in.Excluded()
	}
	return r, p.compare(ctx, publisher.Catalog(), &r)
}

// checkUnchanged returns an error if content of a tree that was not read does not exist in the
// store any more.
func (p *publishing) checkUnchanged(ctx context.Context, b *writer.Session) error {
	if p.in == nil {
		return nil
	}
	missing, err := b.Missing(ctx, p.in.Shards())
	if err != nil || len(missing) == 0 {
		return err
	}
	return &damagedTree{text: fmt.Sprintf("%s@%d is the same, but %s of it is missing in %s, as %s; to store the content again: xetfs publish --checksum %s %s %s",
		p.symbol, b.Head().Number, ui.Plural(int64(len(missing)), "object"), p.storePath, filepath.Base(string(missing[0])),
		ui.ShellWord(p.storePath), ui.ShellWord(p.symbol), ui.ShellWord(p.folder))}
}

// A damagedTree is damage of the newest version, which publish found.
type damagedTree struct{ text string }

func (e *damagedTree) Error() string { return e.text }

// Is makes it codec.ErrCorrupt.
func (*damagedTree) Is(target error) bool { return target == codec.ErrCorrupt } //nolint:errorlint // as package errors asks for it

// publishTree publishes the whole tree, or what is new in it. It is catalog.ErrSame if nothing is.
func (p *publishing) publishTree(ctx context.Context, publisher *writer.Writer, b *writer.Session) (names.Row, error) {
	c, head := publisher.Catalog(), b.Head()
	hide := p.show(ctx, head)
	defer hide()
	if !p.update {
		entries := p.in.Entries(ctx)
		if p.force {
			return b.Replace(ctx, entries)
		}
		return b.ReplaceChanged(ctx, entries)
	}
	var tree catalog.Tree
	if head != nil {
		var err error
		if tree, err = c.OpenRow(ctx, p.symbol, *head); err != nil {
			return names.Row{}, err
		}
	} else if len(p.remove) > 0 {
		return names.Row{}, p.nothingToRemove()
	}
	changes, err := p.changes(ctx, tree)
	switch {
	case err != nil:
		return names.Row{}, err
	case len(changes) == 0 && !p.force:
		return names.Row{}, writer.ErrSame
	}
	return b.Update(ctx, changes)
}

func (p *publishing) nothingToRemove() error {
	return fmt.Errorf("%s has no version that --remove could take something from: %w", p.symbol, iofs.ErrNotExist)
}

// compare counts the differences to the version before, which costs as much as there are.
func (p *publishing) compare(ctx context.Context, c *catalog.StoreCatalog, r *publishResult) error {
	switch {
	case !r.published:
		return nil
	case r.before == nil:
		r.diff.added = r.row.Entries
		return nil
	}
	for change, err := range c.Changes(ctx, *r.before, r.row) {
		if err != nil {
			return fmt.Errorf("version %d is published; what has changed is not known: %w", r.row.Number, err)
		}
		r.diff.count(change)
	}
	return nil
}
