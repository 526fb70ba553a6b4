package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/publish"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// publishPercent is the growth of the heap between two garbage collections.
const publishPercent = 40

// newPublish returns the command that makes a folder the newest version of a symbol.
func newPublish() *cobra.Command {
	o := publishOptions{folderFlags: newFolderFlags()}
	cmd := &cobra.Command{
		Use:        "publish STORE SYMBOL FOLDER",
		SuggestFor: []string{"init", "add", "commit", "push", "upload", "put"},
		Short:      "Make a folder the newest version of a symbol",
		Long: `Packs the content that STORE lacks, and publishes the tree of FOLDER as the next version of SYMBOL.
STORE is a local folder or a bucket of its own; it is made if it is absent. Readers see either the
old version or the new one, also if publish is killed. If the tree is that of the newest version,
there is no new version. With --update only the differences in FOLDER and --remove change the tree.`,
		Annotations: see("publishing", "versions", "json"),
		Example: `  xetfs publish ./store org/model ~/models/bert
  xetfs publish --update --message 'new tokenizer' ./store org/model ./tokenizer
  xetfs publish --from org/model@-2 ./store org/model
  xetfs publish s3://bucket/store org/model ~/models/bert`,
		Args: arguments(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd, args); err != nil {
				return err
			}
			return runPublish(cmd, o)
		},
		ValidArgsFunction: completePublish,
	}
	o.addFlags(cmd)
	return cmd
}

// completePublish lets the shell complete symbols, then folders.
func completePublish(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 2 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return completeSymbols(1)(cmd, args, prefix)
}

// runPublish publishes.
func runPublish(cmd *cobra.Command, o publishOptions) error {
	limitHeap(cmd, publishPercent)
	p := newPublishRun(cmd, o)
	ctx := cmd.Context()
	return ui.UntilCanceled(ctx, func() error { return p.run(ctx) })
}

func newPublishRun(cmd *cobra.Command, o publishOptions) *publishRun {
	bar := newProgress(cmd, "publish")
	return &publishRun{cmd: cmd, publishOptions: o, bar: bar, started: time.Now(), report: report.NewPublish(report.Output{
		Command: cmd.CommandPath(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Bar: bar, JSON: o.asJSON,
		IncompleteStatus: exitIncomplete,
	})}
}

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
	if err != nil {
		return err
	}
	o.Ingest.Progress, o.Ingest.Fault = p.bar, p.fault
	if p.dryRun {
		return p.runDry(ctx, o)
	}
	var done func()
	if o.Version.Sign, done, err = openSignKey(p.cmd); err != nil {
		return err
	}
	defer done()
	if p.from != "" {
		return p.runFrom(ctx, o)
	}
	return p.runFolder(ctx, o)
}

// runFolder publishes FOLDER. It creates store and catalog if they are missing.
func (p *publishRun) runFolder(ctx context.Context, o publish.Options) error {
	store, err := stack.OpenPublishStore(ctx, p.storePath, writerOptions(p.cmd, p.storePath))
	if err != nil {
		return err
	}
	defer store.Close()
	o.Store, o.Sink, o.Writer = store, origin.Sink(store), store.Writer
	o.TempFile, o.Mirror = store.TempFile, store.Mirror
	r, err := publish.Run(ctx, o, p.report)
	if err == nil || r.Published {
		store.WriteListing(context.WithoutCancel(ctx), writesListing(p.cmd), p.report.Note)
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
	if err == nil || r.Published {
		stack.WriteListing(context.WithoutCancel(ctx), w.Store, nil, writesListing(p.cmd), p.report.Note)
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
	o.Catalog, o.TempFile, o.Mirror = store.Catalog, store.TempFile, store.Mirror
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
	switch path, _ := p.cmd.Flags().GetString(signKeyName); {
	case r.Published:
		p.report.NotePrivate(p.storePath)
	case path != "" && r.Version.Sig == "":
		p.report.Note(fmt.Sprintf("version %d is the same tree and has no signature; sign it: xetfs catalog sign --sign-key %s %s %s",
			r.Version.Number, ui.ShellWord(path), ui.ShellWord(p.storePath), ui.ShellWord(fmt.Sprintf("%s@%d", p.symbol, r.Version.Number))))
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
		return &damagedTree{text: fmt.Sprintf("no new version of %s: %s lacks %s of unchanged files, such as %s; store the content again: xetfs publish --checksum %s %s %s",
			p.symbol, p.storePath, ui.Plural(int64(len(missing.Missing)), "object"), filepath.Base(string(missing.Missing[0])),
			ui.ShellWord(p.storePath), ui.ShellWord(p.symbol), ui.ShellWord(p.folder))}
	}
	return err
}

// A damagedTree describes content that the store has lost.
type damagedTree struct{ text string }

func (e *damagedTree) Error() string { return e.text }

// Is makes it codec.ErrCorrupt.
func (*damagedTree) Is(target error) bool { return target == codec.ErrCorrupt } //nolint:errorlint // required by package errors
