package main

import (
	"cmp"

	"github.com/spf13/cobra"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

func newCacheClear() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Throw away everything that is kept",
		Long: `Throws away everything in the disk cache. While another process writes to it, that is refused.

` + cachePlaceHelp + `

` + freedHelp,
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

// freedHelp is the end of the help of commands that make a disk cache smaller.
const freedHelp = `With --json there is one object: {"dir", "freed" (bytes), "bytes" (that are left)}.`

func newCacheTrim() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "trim SIZE",
		Short: "Throw away what is used least",
		Long: `Evicts the least used content of the disk cache until its total size is at most SIZE: bytes, or
percent of the file system. Chunks are evicted in large segments, so the remaining size may be
much smaller. While another process writes to the cache, the command is refused.

Mounts observe a limit automatically, see xetfs mount --cache-size.

` + ui.UnitsHelp + `

` + cachePlaceHelp + `

` + freedHelp,
		Example: `  xetfs cache trim 2GiB
  xetfs cache trim 5%`,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := atLeast(0)(args[0])
			if err != nil {
				return usageError{err}
			}
			return shrink(cmd, &flags, asJSON, func(c *stack.DiskCache) error {
				total, err := stack.FileSystemSize(flags.folder().Path)
				if err != nil {
					return err
				}
				return c.Trim(size.of(total))
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// shrink makes the disk cache smaller and prints the freed size.
func shrink(cmd *cobra.Command, flags *cacheFlags, asJSON bool, do func(*stack.DiskCache) error) error {
	return openedCache{}.with(cmd, flags, func(f *stack.CacheFolder, c *stack.DiskCache) error {
		before := c.Stats().Bytes
		if err := do(c); err != nil {
			return err
		}
		left := c.Stats().Bytes
		return report.WriteFreed(cmd.OutOrStdout(), f.Path, max(0, before-left), left, asJSON)
	})
}
