package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/pack"
)

// packOptions are the flags of pack.
type packOptions struct {
	list, asJSON, strict, noSHA bool
	oneFileSystem               bool
	exclude                     []string
	scheme                      compressFlag
}

// newPack returns the command that stores files as shards and xorbs.
func newPack() *cobra.Command {
	o := packOptions{scheme: newCompress()}
	cmd := &cobra.Command{
		Use:   "pack STORE FOLDER…",
		Short: "Store the files of folders as shards and xorbs",
		Long: `Reads every regular file in the folders and stores what
STORE does not have yet: chunks in xorbs, files in shards, below STORE/tdata. STORE is a
local folder of its own; it is made if it is not there, and shards and xorbs anywhere in it
count. Any other folder that is not empty is refused. Chunk boundaries, hashes and layout
are those of the Xet reference implementation, so every Xet client can read the result.
Packing the same files again stores nothing.

Names are not stored: a packed file is found by its hash, which --list shows. The order is
that of the names in a folder, then that of its subfolders. Pack skips and names all other
kinds of files. STORE may lack a file without permission, or one that changed during three
reads: it is named, and the exit status is 9. --strict fails at the first of both. An error
of the machine, such as a disk that cannot be read or too many open files, stops packing.
Patterns of --exclude are those of publish. STORE and mounts of xetfs below FOLDER are left
out and named.

A run that is interrupted or killed leaves only whole objects behind. The next run finds
them and continues. Two runs at a time do not disturb each other.

A file must not consist of small fragments. Pack measures the average length of the last 128
runs of chunks of a file. Below 4 chunks, it stores chunks of shorter runs once more beside
the new ones, until the average is 8. The reference has the same rule.

With --json the summary is one object. Times are seconds; those of stages are sums over
all cores:

  list                with --list: {"path", "size", "hash", "sha256"} for each file
  skipped             {"path", "why", "missing"} for each path that was passed over
  missing             of skipped: how many are the reason for exit status 9
  files, bytes, chunks       what was packed
  new_chunks, new_bytes      of that, what the store did not have
  packed_bytes               and what it takes, packed
  deduplicated_bytes         what it had
  again_chunks, again_bytes  of the new: what it had, but in crumbs
  xorbs, shards       that were stored
  ratio               bytes / packed_bytes; null if nothing was stored
  compression         new_bytes / packed_bytes; likewise
  seconds             the whole, and bytes_per_second
  stages              read_and_cut, sha256, hash, decide, compress, place, store`,
		Example: `  xetfs pack ./store ~/models/bert
  xetfs pack --list ./store src | grep README
  xetfs mount ./store /mnt/x`,
		Args: arguments(2, 1<<20),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPack(cmd, args[0], args[1:], o)
		},
	}
	singleWriterFlag(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "print size, hash, SHA-256 and path of each file")
	f.BoolVar(&o.asJSON, "json", false, "print the summary, and the list, as JSON")
	f.BoolVar(&o.strict, "strict", false, "fail at the first thing that cannot be packed")
	f.StringArrayVar(&o.exclude, "exclude", nil, "leave out what fits this `PATTERN`, as of publish (may be repeated)")
	f.BoolVar(&o.oneFileSystem, "one-file-system", false, "leave out other mounts below FOLDER, and name them")
	f.BoolVar(&o.noSHA, "no-sha256", false, "neither compute nor store the SHA-256 of files")
	o.scheme.add(cmd, "compress", "auto, as the reference chooses; best, the smallest of all; none; lz4; bg4-lz4")
	return cmd
}

// runPack packs folders into a store.
func runPack(cmd *cobra.Command, store string, folders []string, o packOptions) error {
	stack.LimitMemory(packMemory, noticeLogger(cmd))
	debug.SetGCPercent(packPercent)
	ctx := cmd.Context()
	p, err := newPackRun(cmd, o)
	if err != nil {
		return err
	}
	return ui.UntilCanceled(ctx, func() error {
		p.remote = writerOptions(cmd, store)
		return p.run(store, folders)
	})
}

func newPackRun(cmd *cobra.Command, o packOptions) (*packRun, error) {
	p := &packRun{
		ctx: cmd.Context(), o: o, bar: ui.NewProgress(cmd.ErrOrStderr(), "pack"), started: time.Now(),
		ignore: new(ignore.Matcher),
	}
	for _, pattern := range o.exclude {
		if err := p.ignore.Add(pattern); err != nil {
			return nil, usageError{err}
		}
	}
	p.report = report.NewPack(report.Output{
		Command: cmd.CommandPath(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Bar: p.bar, JSON: o.asJSON,
		IncompleteStatus: exitIncomplete,
	}, o.list)
	return p, nil
}

// A packRun is one run of pack.
type packRun struct {
	ctx     context.Context // of the command
	o       packOptions
	remote  stack.Remote
	store   *stack.PackStore
	in      *ingest.Ingest
	report  *report.Pack
	bar     *ui.Progress
	started time.Time
	ignore  *ignore.Matcher
	fault   func(call string) error // see ingest.Options
}

func (p *packRun) run(storePath string, folders []string) error {
	if err := stack.CheckNewStore(storePath); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := checkPackFolder(storePath, folder); err != nil {
			return err
		}
	}
	if err := stack.CheckWriteStore(p.ctx, storePath, hint.Order(folders[0], "xetfs pack", folders[0], storePath)); err != nil {
		return err
	}
	var err error
	if p.store, err = stack.OpenPackStore(p.ctx, storePath, p.remote, p.report.Note); err != nil {
		return err
	}
	defer p.store.Close()
	p.in, err = ingest.New(ingest.Options{
		Folders: folders, FilesOnly: true, Ignore: p.ignore,
		Own:           ownStore(storePath),
		OneFileSystem: p.o.oneFileSystem, Strict: p.o.strict,
		Sink: origin.Sink(p.store.WriteStore),
		Pack: pack.Options{
			Known: p.store.Known, Schemes: p.o.scheme.value, NoSHA: p.o.noSHA, Created: p.started,
		},
		Report: p.report, Progress: p.bar, Consequence: "packing stopped", Fault: p.fault,
	})
	if err != nil {
		return err
	}
	hide := p.show()
	err = p.files()
	hide()
	if err != nil {
		return writeError(storePath, err)
	}
	stack.WriteListing(p.ctx, p.store.WriteStore, p.store.Bare, p.report.Note)
	p.report.NotePrivate(storePath)
	return p.report.Close(p.in.Stats(), time.Since(p.started))
}

// files packs all files of all folders.
func (p *packRun) files() error {
	for e, err := range p.in.All(p.ctx) {
		if err != nil {
			return err
		}
		p.report.File(e)
	}
	return nil
}

// show shows the progress until the returned function is called.
func (p *packRun) show() (hide func()) {
	return p.bar.Follow(p.ctx, p.in.Measure, func() string {
		s := p.in.Stats()
		return fmt.Sprintf("pack, %s new, %s not", ui.HumanSize(s.NewBytes), ui.HumanSize(s.OldBytes))
	})
}
