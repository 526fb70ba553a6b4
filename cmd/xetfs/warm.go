package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/status"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/warm"
	"github.com/xetfs/xetfs/fs/catalog"
)

// warmOptions are the flags of warm.
type warmOptions struct {
	cache   cacheFlags
	signers signerFlags
	chunks  bool
	bare    bool
	asJSON  bool
}

// newWarm returns the command that fetches files before they are needed.
func newWarm() *cobra.Command {
	var o warmOptions
	cmd := &cobra.Command{
		Use:   "warm SOURCE [SYMBOL[@AS_OF]] [PATH…]",
		Short: "Fetch files into the disk cache before they are needed",
		Long: `Stores the files at each PATH as plain files in the disk cache. A folder counts with all that is
below it; without PATH the whole tree is stored. Each file is compared with its hash. A mount of
SOURCE then reads the file without a request to SOURCE. Links are not followed.

If SOURCE is a catalog, PATH is in the tree of SYMBOL; any other folder has no symbols. AS_OF selects a version of SYMBOL: a number, an age like -1, a time, a day, snap:NAME or ver:HASH.

Content in the cache is not fetched again, so after an interruption the same command continues. A
selection that exceeds --cache-size is refused at once. The exit status is 6 if a file is damaged;
the other files are fetched all the same.

The disk cache is in ~/.cache/xetfs/disk, or where --cache-dir says. While a mount of SOURCE
writes to it, the files are read through that mount, which stores them, if it shows the version.
Instead of SOURCE, there may be paths in a mount. The options of the mount then count.`,
		Annotations: see("cache", "versions", "json"),
		Example: `  xetfs warm https://example.org/store org/model
  xetfs warm https://example.org/store org/model@12 config.json weights
  xetfs warm /mnt/x/org/model
  xetfs warm --cache-size 100GiB https://example.org/store org/model`,
		Args:              arguments(1, 1<<20),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0], args[1:])
		},
	}
	o.cache.addFlags(cmd, cacheUsage)
	cmd.Flags().BoolVar(&o.chunks, "chunks", false, "keep the packed chunks of the files, instead of whole files")
	bareFlag(cmd, &o.bare)
	o.signers.add(cmd)
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print the summary as JSON")
	progressFlag(cmd)
	return cmd
}

// run opens everything and warms what the arguments behind SOURCE name.
//
// A mount that owns the disk cache stores the files, if the arguments are paths in it, or if it
// shows them.
func (o *warmOptions) run(cmd *cobra.Command, folder string, args []string) error {
	if len(status.Around(folder)) > 0 {
		if err := o.checkInMount(cmd, folder); err != nil {
			return err
		}
		return throughMount(cmd, append([]string{folder}, args...), o.asJSON)
	}
	err := o.runCommand(cmd, folder, args)
	var busy *stack.BusyError
	if errors.As(err, &busy) && o.signers.allowed == "" && !o.chunks && !o.bare {
		if paths := o.mountedPaths(cmd, busy.Owner, folder, args); paths != nil {
			return throughMount(cmd, paths, o.asJSON)
		}
	}
	return err
}

// checkInMount refuses the flags that have no effect on a path in a mount.
func (o *warmOptions) checkInMount(cmd *cobra.Command, path string) error {
	if isGiven(cmd.Flags().Lookup(allowedName)) {
		return usageError{fmt.Errorf("%s is in a mount, which decides about signatures: --allowed-signers goes to xetfs mount", path)}
	}
	for _, name := range []string{"bare", "cache-dir", "cache-free", "cache-size", "chunks"} {
		if isGiven(cmd.Flags().Lookup(name)) {
			return usageError{fmt.Errorf("%s is in a mount, which has its own options: leave --%s out, or name SOURCE", path, name)}
		}
	}
	return nil
}

// runCommand warms with a disk cache that this process owns.
func (o *warmOptions) runCommand(cmd *cobra.Command, folder string, args []string) error {
	if err := stack.CheckSource(folder); err != nil {
		return err
	}
	cache, err := o.folder(folder)
	if err != nil {
		return err
	}
	signatures, err := o.signers.options(noticeLogger(cmd))
	if err != nil {
		return err
	}
	return withSource(cmd, folder, stack.Options{Bare: o.bare, Disk: cache, Count: true, Signatures: signatures}, func(ctx context.Context, s *stack.Source) error {
		if err := checkHasShard(ctx, s); err != nil {
			return err
		}
		tree, paths, err := openTree(ctx, s, args, 1<<20)
		if err != nil {
			return damageIfLost(err)
		}
		result, err := o.warm(ctx, cmd, s, tree, paths, cache)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return damageIfLost(err)
		}
		return report.WriteWarm(cmd.OutOrStdout(), result, o.asJSON)
	})
}

// warm fetches the files of a tree at paths.
func (o *warmOptions) warm(ctx context.Context, cmd *cobra.Command, s *stack.Source, tree catalog.Tree, args []string, cache *stack.CacheFolder) (report.WarmResult, error) {
	paths, leftOut, err := selectPaths(ctx, s, tree, args)
	if err != nil {
		return report.WarmResult{}, err
	}
	bar := newProgress(cmd, "warm")
	defer bar.Clear()
	notices := ui.NewNotices(cmd.CommandPath(), cmd.ErrOrStderr(), bar)
	run := warm.New(warm.Options{
		Cache: s.Cache, Reader: s.Reader, Disk: s.Disk.Store, Tree: tree, Bare: s.Bare != nil,
		Paths: paths, Chunks: o.chunks, MaxBytes: cache.Options.MaxBytes, Bar: bar,
		Failed: func(path string, err error) { notices.Note(fmt.Sprintf("%s: %v", path, err)) },
	})
	started := time.Now()
	all, err := run.Plan(ctx)
	if err == nil {
		err = o.fits(all, s.Disk.Store, cache)
	}
	if err != nil {
		return report.WarmResult{}, err
	}
	bar.Expect(all.Bytes)
	bar.Start()
	result, err := run.Do(ctx)
	fetched := s.Requests.Load().Bytes
	return report.WarmResult{Result: result, All: all, Damaged: leftOut, Fetched: &fetched, Took: time.Since(started)}, err
}

// folder returns the disk cache for the files, or the reason why they cannot be stored.
func (o *warmOptions) folder(source string) (*stack.CacheFolder, error) {
	switch {
	case o.cache.dir.value.off:
		return nil, usageError{errors.New("--cache-dir=off: there is nowhere to keep the files")}
	case o.chunks && !stack.IsAddress(source):
		return nil, usageError{fmt.Errorf("--chunks: those of a local folder, as %s, are not kept", source)}
	}
	f := o.cache.folder()
	if f.Err != nil {
		return nil, f.Err
	}
	f.IfBusy = "name another folder with --cache-dir"
	if !o.chunks && !o.bare {
		f.IfBusy = "read the files through a mount that shows them, or " + f.IfBusy
	}
	return f, cmp.Or(cmp.Or(f.CheckApart(source, ""), o.cache.limit(f)), f.Err)
}

// warmReserve limits plain files in the disk cache to all but one part in warmReserve. The rest
// is for chunks of mounts, the index, and room for moves.
const warmReserve = 8

// fits refuses plain files that exceed the disk cache. The size of packed chunks is unknown
// before they arrive. Stored chunks are reused later or evicted.
func (o *warmOptions) fits(all warm.Selection, d *disk.Store, cache *stack.CacheFolder) error {
	if o.chunks {
		return nil
	}
	most := cache.Options.MaxBytes
	if all.Room > most-most/warmReserve {
		least := ui.ByteSize((all.Room/(warmReserve-1)*warmReserve>>20 + 1) << 20)
		return fmt.Errorf("%s with %s do not fit into a disk cache of %s; give it at least --cache-size %s, or name fewer PATHs",
			ui.Plural(all.Files, "file"), ui.HumanSize(all.Bytes), ui.HumanSize(most), least)
	}
	free, err := stack.FileSystemFree(cache.Path)
	if err != nil {
		return fmt.Errorf("%s: %w", cache.Path, err)
	}
	free -= max(0, cache.Options.MinFree)
	others := d.Stats().Bytes - (all.Room - all.Absent) // which make room
	if all.Absent > max(0, free)+max(0, others) {
		return fmt.Errorf("%s: %s are missing, and beside what --cache-free keeps clear there is room for %s; make room, or name another folder with --cache-dir",
			cache.Path, ui.HumanSize(all.Absent), ui.HumanSize(max(0, free)))
	}
	return nil
}

// throughMount warms paths of mounts.
func throughMount(cmd *cobra.Command, paths []string, asJSON bool) error {
	bar := newProgress(cmd, "warm")
	notices := ui.NewNotices(cmd.CommandPath(), cmd.ErrOrStderr(), bar)
	m := warm.Mounted{
		Paths: paths, Bar: bar, Check: sync.OnceValue(func() error { return checkStoring(cmd.Context(), paths) }),
		Failed: func(path string, err error) { notices.Note(fmt.Sprintf("%s: %v", path, err)) },
	}
	started := time.Now()
	all, result, err := m.Do(cmd.Context())
	bar.Clear()
	switch {
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	case err != nil:
		return err
	}
	return report.WriteWarm(cmd.OutOrStdout(), report.WarmResult{Result: result, All: all, Took: time.Since(started)}, asJSON)
}

// mountWait is the longest wait for the figures of mounts.
const mountWait = 10 * time.Second

// checkStoring returns an error if a mount of some paths stores nothing.
func checkStoring(ctx context.Context, paths []string) error {
	mounts := status.Around(paths...)
	err := fillMounts(ctx, mounts, mountWait)
	for i := range mounts {
		err = cmp.Or(err, mounts[i].CheckStoring())
	}
	return err
}

// mountedPaths returns the paths that the arguments of warm name, in the mount of SOURCE whose process owner
// writes to the disk cache. It returns nil if no such mount shows them.
func (o *warmOptions) mountedPaths(cmd *cobra.Command, owner int, source string, args []string) []string {
	mounts, err := status.Mounts()
	if err != nil {
		return nil
	}
	mounts = status.FromSource(mounts, source)
	if err := fillMounts(cmd.Context(), mounts, mountWait); err != nil {
		return nil
	}
	found := status.WritingTo(mounts, owner)
	if found == nil {
		return nil
	}
	base, args, err := o.mountedTree(cmd, found, source, args)
	if err != nil || base == "" {
		return nil
	}
	paths := make([]string, 0, max(1, len(args)))
	for _, arg := range args {
		p, err := treePath(arg)
		if err != nil {
			return nil
		}
		paths = append(paths, filepath.Join(base, p))
	}
	if len(args) == 0 {
		paths = append(paths, base)
	}
	for _, p := range paths {
		if _, err := os.Lstat(p); err != nil {
			return nil
		}
	}
	return paths
}

// mountedTree returns the folder of a mount of SOURCE with the tree that the arguments name, or "", and the
// paths in the tree. It compares the version with that of SOURCE, since a mount may show an older one. A
// repository of the Hub is one tree, and its mount counts as it is.
func (o *warmOptions) mountedTree(cmd *cobra.Command, m *status.Mount, source string, args []string) (folder string, paths []string, err error) {
	if stack.NamesSymbol(source) {
		return m.Dir, args, nil
	}
	err = withSource(cmd, source, stack.Options{Bare: o.bare}, func(ctx context.Context, s *stack.Source) error {
		tree, rest, err := openTree(ctx, s, args, 1<<20)
		switch {
		case err != nil:
			return err
		case s.Bare != nil:
			folder, paths = m.Dir, rest
			return nil
		}
		t, err := parseTarget(args[0])
		if err == nil {
			version := tree.Version()
			folder = m.FolderOf(t.symbol, version.Number, version.Identity.String())
		}
		paths = rest
		return err
	})
	return folder, paths, err
}
