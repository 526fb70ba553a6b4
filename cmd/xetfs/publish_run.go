package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/publish"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// runPublish publishes.
func runPublish(cmd *cobra.Command, o publishOptions) error {
	stack.LimitMemory(packMemory, newNotes(cmd.ErrOrStderr(), cmd.CommandPath()))
	debug.SetGCPercent(publishPercent)
	p := newPublishRun(cmd, o)
	ctx := cmd.Context()
	return ui.UntilCanceled(ctx, func() error { return p.run(ctx) })
}

func newPublishRun(cmd *cobra.Command, o publishOptions) *publishRun {
	bar := ui.NewProgress(cmd.ErrOrStderr(), "publish")
	return &publishRun{cmd: cmd, publishOptions: o, bar: bar, started: time.Now(), report: report.NewPublish(report.Output{
		Command: cmd.CommandPath(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Bar: bar, JSON: o.asJSON,
		IncompleteStatus: exitIncomplete,
	})}
}

// publishPercent is the room of the Go heap beside live objects. It is less than usual, because
// live objects are mostly the buffers of the packer.
const publishPercent = 40

// A publishRun is one run of the command.
type publishRun struct {
	publishOptions
	cmd     *cobra.Command
	report  *report.Publish
	bar     *ui.Progress
	started time.Time
	fault   func(call string) error // see ingest.Options
}

func (p *publishRun) run(ctx context.Context) error {
	o, err := p.options()
	switch {
	case err != nil:
		return err
	case p.dryRun:
		return p.runDry(ctx, o)
	case p.from != "":
		return p.runFrom(ctx, o)
	}
	return p.runFolder(ctx, o)
}

// options returns the options without the store.
func (p *publishRun) options() (o publish.Options, err error) {
	o = publish.Options{
		Symbol: p.symbol,
		Version: writer.PublishOptions{
			IfVersion: p.ifVersion.pointer(), Writer: publishWriter(), Message: p.message, Labels: p.labels, Verify: p.checksum,
		},
		Update: p.update, Force: p.force, Remove: p.remove, StorePath: p.storePath,
	}
	if p.from != "" {
		t, err := p.source()
		o.From = &publish.Source{Symbol: t.symbol, At: t.at}
		return o, err
	}
	if p.folder == "" {
		return o, nil
	}
	dir, err := ownCacheDir()
	o.StatCacheDir, o.StatCacheErr = filepath.Join(dir, statCacheDir), err
	o.Ingest, err = p.ingestOptions()
	return o, err
}

// statCacheDir is the folder of all stat caches in cacheDir.
const statCacheDir = "publish"

// ingestOptions returns the options to read FOLDER.
func (p *publishRun) ingestOptions() (ingest.Options, error) {
	m, err := ingest.ReadIgnoreFile(p.folder)
	if err != nil {
		return ingest.Options{}, err
	}
	for _, pattern := range p.exclude {
		if err := m.Add(pattern); err != nil {
			return ingest.Options{}, usageError{err}
		}
	}
	own := ownStore(p.storePath)
	if dir, err := cacheDir(); err == nil {
		own = append(own, ingest.OwnFolder{Path: filepath.Join(dir, statCacheDir), What: "where publish remembers what it has read"})
	}
	return ingest.Options{
		Folders: []string{p.folder}, Ignore: m, Own: own,
		OneFileSystem: p.oneFileSystem, Owner: p.owner, Xattrs: p.xattrs, Strict: p.strict, Checksum: p.checksum,
		Pack:     pack.Options{Schemes: p.scheme.value, NoSHA: p.noSHA, Created: p.started},
		Progress: p.bar, Consequence: "nothing was published", Fault: p.fault,
	}, nil
}

// source reads --from: SYMBOL[@AS_OF], or ver:HASH alone.
func (p *publishRun) source() (target, error) {
	if strings.HasPrefix(p.from, "ver:") {
		at, err := names.ParseAsOf(p.from)
		if err != nil {
			return target{}, usageError{err}
		}
		return target{p.symbol, at}, nil
	}
	return parseTarget(p.from)
}

// runFolder publishes FOLDER. It creates store and catalog if they are missing.
func (p *publishRun) runFolder(ctx context.Context, o publish.Options) error {
	store, err := stack.OpenPublishStore(ctx, p.storePath, writerOptions(p.cmd, p.storePath))
	if err != nil {
		return err
	}
	defer store.Close()
	o.Store, o.Sink, o.TempFile, o.Writer = store, origin.Sink(store), store.TempFile, store.Writer
	r, err := publish.Run(ctx, o, p.report)
	if err == nil {
		stack.WriteListing(ctx, store.WriteStore, nil, p.report.Note)
	}
	return p.finish(ctx, r, store.Pages(), err)
}

// runFrom publishes the tree of --from.
func (p *publishRun) runFrom(ctx context.Context, o publish.Options) error {
	w, err := stack.OpenWriter(ctx, p.storePath, writerOptions(p.cmd, p.storePath))
	if err != nil {
		return err
	}
	defer w.Close()
	o.Writer = w.Writer
	r, err := publish.Run(ctx, o, p.report)
	if err == nil {
		stack.WriteListing(ctx, w.Store, nil, p.report.Note)
	}
	return p.finish(ctx, r, 0, hint.Absent(ctx, w.Catalog(), p.storePath, err))
}

// runDry runs publish without writing.
func (p *publishRun) runDry(ctx context.Context, o publish.Options) error {
	store, err := stack.OpenDryStore(ctx, p.storePath, remoteOptions(p.cmd, p.storePath))
	if err != nil {
		return err
	}
	defer store.Close()
	o.Catalog, o.TempFile = store.Catalog, store.TempFile
	if store.Store != nil {
		o.Store = store.Store
	}
	r, err := publish.Run(ctx, o, p.report)
	if err != nil {
		return p.explained(ctx, err)
	}
	return p.report.Close(report.PublishResult{Result: r, Symbol: p.symbol, DryRun: true, ReadFolder: p.folder != "", Took: time.Since(p.started)})
}

// finish prints the result, or returns the error in the words of the command.
func (p *publishRun) finish(ctx context.Context, r publish.Result, pages int64, err error) error {
	switch {
	case errors.Is(err, writer.ErrSwept):
		return fmt.Errorf("%w; publish once more", err)
	case err != nil:
		return writeError(p.storePath, p.explained(ctx, err))
	}
	if r.Published {
		p.report.NotePrivate(p.storePath)
	}
	return p.report.Close(report.PublishResult{Result: r, Symbol: p.symbol, ReadFolder: p.folder != "", Pages: pages, Took: time.Since(p.started)})
}

// explained adds the next step to an error.
func (p *publishRun) explained(ctx context.Context, err error) error {
	var (
		absent  *publish.AbsentError
		missing *publish.MissingError
	)
	switch {
	case errors.As(err, new(*catalog.NestedError)):
		return usageError{fmt.Errorf("%w; publish to another symbol, or delete one of the two first (xetfs delete)", err)}
	case errors.As(err, &absent):
		return fmt.Errorf("--remove %w", hint.Path(ctx, absent.Tree, absent.Path, absent.Err))
	case errors.As(err, &missing):
		return &damagedTree{text: fmt.Sprintf("%s@%d is the same, but %s of it is missing in %s, as %s; to store the content again: xetfs publish --checksum %s %s %s",
			p.symbol, missing.Version.Number, ui.Plural(int64(len(missing.Missing)), "object"), p.storePath, filepath.Base(string(missing.Missing[0])),
			ui.ShellWord(p.storePath), ui.ShellWord(p.symbol), ui.ShellWord(p.folder))}
	}
	return err
}

// A damagedTree describes damage of the newest version.
type damagedTree struct{ text string }

func (e *damagedTree) Error() string { return e.text }

// Is makes it codec.ErrCorrupt.
func (*damagedTree) Is(target error) bool { return target == codec.ErrCorrupt } //nolint:errorlint // see package errors
