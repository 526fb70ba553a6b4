package main

import (
	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
)

// newCache is the command that looks after the disk cache.
func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache status | list | verify | clear | trim",
		Short: "Look after what is kept on the local disk",
		Long: `Manages the disk cache. Mounts store chunks and index pages of a remote SOURCE in it. Mounts
and xetfs warm store plain files in it. Any of its content may be evicted at any time, and is
fetched again when it is needed.

` + cachePlaceHelp + `

One process at a time writes to it. While a mount does, the commands here only read: status,
list and verify show a recent state; clear and trim are refused.`,
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
		Long: `Shows the size of the disk cache, and which process writes to it. Each mount counts its own
hits: getfattr -n user.xet.stats MOUNTPOINT

` + cachePlaceHelp + `

With --json there is one object:

  dir           the folder
  shared        true if another process writes to it
  owner         the id of that process, or null
  chunks        number of chunks and index pages
  files         number of plain files
  bytes         total size
  chunk_bytes, file_bytes, index_bytes
  free_bytes    free space of the file system`,
		Example: `  xetfs cache status
  xetfs cache status --json | jq .bytes`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return openedCache{share: true}.with(cmd, &flags, func(f *stack.CacheFolder, c *stack.DiskCache) error {
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
