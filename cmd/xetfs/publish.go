package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
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

// newPublish returns the command that makes a folder the newest version of a symbol.
func newPublish() *cobra.Command {
	o := publishOptions{scheme: newCompress()}
	cmd := &cobra.Command{
		Use:        "publish STORE SYMBOL FOLDER",
		SuggestFor: []string{"init", "add", "commit", "push", "upload", "put"},
		Short:      "Make a folder the newest version of a symbol",
		Long: `Packs the content that STORE lacks, as pack does, and publishes the tree of FOLDER as the
next version of SYMBOL. The version has the modes and times of all entries, symbolic links
and empty folders. STORE is a local folder of its own. A missing store or catalog is made. A
folder with anything but a store in it is refused. A store is as private as its folder:
modes of files do not protect their content there. Readers see either the old version or the
new one, also if publish is killed. The next run then continues.

A new symbol must not continue the name of another (me/proj if me exists), or the reverse. A
mount could show only one of the two. SYMBOL has at most 120 bytes; each byte
other than A-Z, a-z, 0-9, dot, _ and - counts as three, also each slash.

If the tree is the same as that of the newest version, there is no new version; --force
makes one. Publish does not read a file again if size, times (modified, changed), inode and
device are the same. It compares them with the last publish of FOLDER as SYMBOL. They are
stored below ~/.cache/xetfs/publish (XDG_CACHE_HOME), which may be deleted; --checksum reads
all files. Changes through a shared memory mapping are seen, too, but not always on tmpfs,
NFS and FUSE: use --checksum there. Files of 256 bytes or fewer are kept in the index of the
tree, without a SHA-256.

With --update the newest tree changes only where FOLDER differs and --remove names a path. A
folder is removed with its content by its path in the tree.

Sockets, devices and pipes are skipped and named. STORE and mounts of xetfs below FOLDER are
left out and named; other mounts are taken, unless --one-file-system is given. The version
may lack more: a path without permission, a file that changed during three reads, extended
attributes that cannot be stored. Each such path is named, and the exit status is 9. --strict
fails at the first of them instead. An error of the machine, such as a disk that cannot be
read or too many open files, publishes nothing. Hard links become files of their own, which
costs nothing.

Patterns of --exclude and of a file .xetfsignore in FOLDER, one a line, are those of
.gitignore. The last matching pattern decides; those of --exclude follow those of the file.
Classes like [[:alpha:]] and pattern files in subfolders are not supported.

  *.tmp                any depth
  /build, doc/*.pdf    relative to FOLDER
  cache/               folders only
  a/**/b, [a-z]        any folders between; one byte of a set
  !keep.tmp            take it after all
  # comment

With --from no folder is read. The tree of another version becomes the newest version. The
other version is one of this symbol, of another, or a deleted one (ver:HASH).

Exit status 6: the tree is the same, but content of it is missing in STORE; --checksum stores
it again.

Exit status 8: another publish was faster, a sweep deleted reused content, or --if-version
names another version. Nothing was published.

Exit status 9: the version exists, but something of FOLDER is missing in it that no option
left out. 130: interrupted, 143: ended by SIGTERM; the next run continues.

With --json the summary is one object:

  symbol, version, root        root is the hash of the tree: SYMBOL@ver:ROOT; null in a dry run
  published, dry_run           false, false: the tree is the same as that of version
  entries, bytes               of the tree: entries, sum of file sizes
  pages                        of the index, that were written
  added, changed, removed      entries, since the newest version before
  folder_entries, files, file_bytes   what was found in FOLDER
  unchanged_files, unchanged_bytes    of that, what was not read
  inline_files                 of 256 bytes or fewer
  excluded, skipped            paths that patterns fit; {"path", "why", "missing"}
  missing                      of skipped: how many are the reason for exit status 9
  chunks, new_chunks, new_bytes, packed_bytes, deduplicated_bytes, xorbs, shards
                               as pack says them, for the files that were read
  seconds`,
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
	stack.LimitMemory(packMemory, noticeLogger(cmd))
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
	o.Ingest.Progress, o.Ingest.Fault, o.Ingest.Pack.Created = p.bar, p.fault, p.started
	switch {
	case p.dryRun:
		return p.runDry(ctx, o)
	case p.from != "":
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
func (*damagedTree) Is(target error) bool { return target == codec.ErrCorrupt } //nolint:errorlint // required by package errors
