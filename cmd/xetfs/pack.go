package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// packOptions are the flags of pack.
type packOptions struct {
	list, asJSON bool
	folderFlags
}

// packPercent is the growth of the heap between two garbage collections.
const packPercent = 20

// newPack returns the command that stores files as shards and xorbs.
func newPack() *cobra.Command {
	o := packOptions{folderFlags: newFolderFlags()}
	cmd := &cobra.Command{
		Use:   "pack STORE FOLDER…",
		Short: "Store the files of folders as shards and xorbs",
		Long: `Stores what STORE does not have yet of the regular files in the folders: chunks in xorbs, files in
shards. STORE is a local folder or a bucket of its own; it is made if it is absent. Chunk
boundaries, hashes and layout are those of the Xet reference implementation, so every Xet client can
read the result. Packing the same files again stores nothing.

Names are not stored: a packed file is found by its hash, which --list shows. Pack skips and names
all other kinds of files. The exit status is 9 if a file without permission, or one that changed
during three reads, is missing in STORE. A run that is interrupted or killed leaves only whole
objects behind, and the next run continues.`,
		Annotations: see("publishing", "json"),
		Example: `  xetfs pack ./store ~/models/bert
  xetfs pack --list ./store src | grep README
  xetfs mount ./store /mnt/x`,
		Args: arguments(2, 1<<20),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPack(cmd, args[0], args[1:], o)
		},
	}
	singleWriterFlag(cmd)
	listingFlag(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "print size, hash, SHA-256 and path of each file")
	f.BoolVar(&o.asJSON, "json", false, "print the summary, and the list, as JSON")
	o.folderFlags.add(cmd, "packed")
	return cmd
}

// runPack packs folders into a store.
func runPack(cmd *cobra.Command, store string, folders []string, o packOptions) error {
	limitHeap(cmd, packPercent)
	p := newPackRun(cmd, o)
	return ui.UntilCanceled(p.ctx, func() error {
		p.remote, p.listing = writerOptions(cmd, store), writesListing(cmd)
		return p.run(store, folders)
	})
}

func newPackRun(cmd *cobra.Command, o packOptions) *packRun {
	bar := newProgress(cmd, "pack")
	return &packRun{ctx: cmd.Context(), o: o, bar: bar, started: time.Now(), report: report.NewPack(report.Output{
		Command: cmd.CommandPath(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Bar: bar, JSON: o.asJSON,
		IncompleteStatus: exitIncomplete,
	}, o.list)}
}

// A packRun is one run of pack.
type packRun struct {
	ctx     context.Context // of the command
	o       packOptions
	remote  stack.Remote
	listing bool // make xetfs.list in a bucket
	store   *stack.PackStore
	in      *ingest.Ingest
	report  *report.Pack
	bar     *ui.Progress
	started time.Time
	fault   func(call string) error // see ingest.Options
}

func (p *packRun) run(storePath string, folders []string) error {
	in, err := p.o.ingestOptions(storePath, folders, new(ignore.Matcher))
	if err != nil {
		return err
	}
	if err := stack.CheckNewStore(storePath); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := checkFolder(storePath, folder); err != nil {
			return err
		}
	}
	if err := stack.CheckWriteStore(p.ctx, storePath, hint.Order(folders[0], "xetfs pack", folders[0], storePath)); err != nil {
		return err
	}
	if p.store, err = stack.OpenPackStore(p.ctx, storePath, p.remote, p.report.Note); err != nil {
		return err
	}
	defer p.store.Close()
	in.FilesOnly, in.Consequence = true, "packing stopped"
	in.Sink, in.Pack.Known = origin.Sink(p.store.WriteStore), p.store.Known
	in.Report, in.Progress, in.Fault = p.report, p.bar, p.fault
	if p.in, err = ingest.New(in); err != nil {
		return err
	}
	hide := p.show()
	err = p.files()
	hide()
	if err != nil {
		return writeError(storePath, err)
	}
	stack.WriteListing(p.ctx, p.store.WriteStore, p.store.Bare, p.listing, p.report.Note)
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
