package main

import (
	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
)

func newCacheList() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what is kept",
		Long: `Lists the content of the disk cache, one line per object: kind, hash, chunks, bytes. A xorb
counts those of its chunks that are cached, as packed bytes. A page is an index page of a
catalog, or the chunk offsets of a xorb. A file is a complete plain file. The lines have no
order. On a terminal a heading precedes the lines, and sizes have units.

` + cachePlaceHelp + `

With --json there is one object: {"entries": [{"kind" (xorb, page or file), "hash", "chunks",
"bytes"}]}.`,
		Example: `  xetfs cache list
  xetfs cache list --json | jq '[.entries[] | select(.kind == "file") | .bytes] | add'`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return openedCache{share: true}.with(cmd, &flags, func(_ *stack.CacheFolder, c *stack.DiskCache) error {
				return report.WriteCacheEntries(cmd.OutOrStdout(), c.Entries(), asJSON)
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}
