package main

import (
	"cmp"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
)

// newCache returns the command that manages the disk cache.
func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache status | list | verify | clear | trim",
		Short: "Manage the disk cache",
		Long: `Manages the disk cache. Mounts store content of a remote SOURCE in it. Any of its content may be
evicted at any time, and is fetched again when it is needed.

One process at a time writes to it. While a mount does, the commands here only read: status, list
and verify show a recent state; clear and trim are refused. The disk cache is in ~/.cache/xetfs/disk, or where --cache-dir says.`,
		Annotations: see("cache"),
		Example: `  xetfs cache status
  xetfs cache trim 2GiB`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheStatus(), newCacheList(), newCacheVerify(), newCacheClear(), newCacheTrim())
	return cmd
}

func newCacheStatus() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the size of the cache, and its writer",
		Long: `Shows the size of the disk cache, and which process writes to it. Each mount counts its own hits:
getfattr -n user.xet.stats MOUNTPOINT.`,
		Annotations: see("cache", "json", "statistics"),
		Example: `  xetfs cache status
  xetfs cache status --json | jq .bytes`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cacheOpener{share: true}.with(cmd, &flags, func(f *stack.CacheFolder, c *stack.DiskCache) error {
				status, err := cacheStatus(f, c)
				if err != nil {
					return err
				}
				return report.WriteCacheStatus(cmd.OutOrStdout(), status, asJSON)
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// cacheStatus returns the size of a disk cache, and its writer.
func cacheStatus(f *stack.CacheFolder, c *stack.DiskCache) (s report.CacheStatus, err error) {
	s = report.CacheStatus{Dir: f.Path, Stats: c.Stats()}
	if c.Shared() {
		s.Owner = stack.CacheOwner(f.Path)
		s.Shared = s.Owner != 0 || f.Writable()
	}
	s.Free, err = stack.FileSystemFree(f.Path)
	return s, err
}

func newCacheList() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the content",
		Long: `Lists the content of the disk cache, one line per object: kind, hash, chunks, bytes. A xorb counts
those of its chunks that are cached, as packed bytes. A page is an index page of a catalog, or the
chunk offsets of a xorb. A file is a complete plain file. The lines have no order.`,
		Annotations: see("cache", "json"),
		Example: `  xetfs cache list
  xetfs cache list --json | jq '[.entries[].bytes] | add'`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cacheOpener{share: true}.with(cmd, &flags, func(_ *stack.CacheFolder, c *stack.DiskCache) error {
				return report.WriteCacheEntries(cmd.OutOrStdout(), c.Entries(), asJSON)
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

func newCacheVerify() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the whole content with its checksums",
		Long: `Reads everything in the disk cache, compares it with its checksums, and prints one line for each
damaged place. Damaged content is removed, and fetched again when it is needed. While another
process writes to the cache, only that process removes it, at its next read of that place. The exit
status is 6 if there is damage.

Chunks and pages are compared at every read. The kernel reads plain files directly, without xetfs,
so a read checks only their size and times. This command finds silent changes by a bad disk at once.
A missing file of the cache is no damage, and is not reported.`,
		Annotations: see("cache", "json"),
		Example: `  xetfs cache verify
  xetfs cache verify --json | jq .sound`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opener := cacheOpener{share: true, log: slog.New(slog.DiscardHandler)} // the report has the faults
			return opener.with(cmd, &flags, func(_ *stack.CacheFolder, c *stack.DiskCache) error {
				return verifyCache(cmd, c, asJSON)
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	progressFlag(cmd)
	return cmd
}

// verifyCache reads everything and prints what is damaged.
func verifyCache(cmd *cobra.Command, c *stack.DiskCache, asJSON bool) error {
	bar := newProgress(cmd, "verify")
	faults := report.NewCacheFaults(cmd.OutOrStdout(), bar, asJSON)
	stats := c.Stats()
	bar.Expect(stats.SegmentBytes + stats.WholeBytes)
	bar.Start()
	stop := bar.FollowReads()
	entries, err := c.Verify(cmd.Context(), faults.Add)
	stop()
	bar.Clear()
	if err != nil {
		return err
	}
	return faults.Close(entries)
}

func newCacheClear() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:               "clear",
		Short:             "Remove the whole content",
		Long:              `Removes everything from the disk cache. While another process writes to it, the command is refused.`,
		Annotations:       see("cache", "json"),
		Example:           `  xetfs cache clear`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return shrink(cmd, &flags, asJSON, func(c *stack.DiskCache) error {
				return cmp.Or(c.Clear(), c.Trim(0)) // Clear alone deletes in the background
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

func newCacheTrim() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "trim SIZE",
		Short: "Remove the least used content",
		Long: `Evicts the least used content of the disk cache until its total size is at most SIZE. SIZE is a
number of bytes, like 10GB (10 * 10^9) or 10GiB (10 * 2^30), or a percentage of the file system. Chunks are evicted in
large segments, so the remaining size may be much smaller. While another process writes to the
cache, the command is refused.

Mounts observe a limit automatically, see xetfs mount --cache-size.`,
		Annotations: see("cache", "json"),
		Example: `  xetfs cache trim 2GiB
  xetfs cache trim 5%`,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := stack.ParseRoom(0)(args[0])
			if err != nil {
				return usageError{err}
			}
			return shrink(cmd, &flags, asJSON, func(c *stack.DiskCache) error {
				total, err := stack.FileSystemSize(flags.folder().Path)
				if err != nil {
					return err
				}
				return c.Trim(size.Limit(total))
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// shrink makes the disk cache smaller and prints the freed size.
func shrink(cmd *cobra.Command, flags *cacheFlags, asJSON bool, do func(*stack.DiskCache) error) error {
	return cacheOpener{}.with(cmd, flags, func(f *stack.CacheFolder, c *stack.DiskCache) error {
		before := c.Stats().Bytes
		if err := do(c); err != nil {
			return err
		}
		left := c.Stats().Bytes
		return report.WriteFreed(cmd.OutOrStdout(), f.Path, max(0, before-left), left, asJSON)
	})
}
