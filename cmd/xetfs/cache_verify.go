package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

func newCacheVerify() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read everything that is kept and compare it with its checksums",
		Long: `Reads everything in the disk cache, compares it with its checksums, and prints one line for
each damaged place. Damaged content is removed, and fetched again when it is needed. While
another process writes to the cache, only that process removes it, at its next read of that
place. The exit status is 6 if there is damage.

Chunks and pages are compared at every read. The kernel reads plain files directly, without
xetfs, so a read checks only their size and times. This command finds silent changes by a bad
disk at once. A mount finds them in the background, some time after an open. A missing file of
the cache is no damage, and is not reported.

` + cachePlaceHelp + `

With --json there is one object: {"faults": [{"kind", "hash", "reason"}], "entries" (how many
were read), "sound"}.`,
		Example: `  xetfs cache verify
  xetfs cache verify --json | jq .sound`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opened := openedCache{share: true, log: slog.New(slog.DiscardHandler)} // what is found is in the report
			return opened.with(cmd, &flags, func(_ *stack.CacheFolder, c *stack.DiskCache) error {
				return verifyCache(cmd, c, asJSON)
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

// verifyCache reads everything and prints what is damaged.
func verifyCache(cmd *cobra.Command, c *stack.DiskCache, asJSON bool) error {
	bar := ui.NewProgress(cmd.ErrOrStderr(), "verify")
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
