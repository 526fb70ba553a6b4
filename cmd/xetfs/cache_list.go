package main

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
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
				return listCache(cmd.OutOrStdout(), c, asJSON)
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// A keptDoc is one object in the JSON of cache list. Its names are stable.
type keptDoc struct {
	Kind   string `json:"kind"`
	Hash   string `json:"hash"`
	Chunks int    `json:"chunks"`
	Bytes  int64  `json:"bytes"`
}

// entryHash is the hash of an entry as its kind spells it.
func entryHash(e disk.Entry) string {
	if e.Kind == "page" {
		return hex.EncodeToString(e.Hash[:])
	}
	return e.Hash.String()
}

// listCache prints the entries as they are found; there may be millions.
func listCache(w io.Writer, c *stack.DiskCache, asJSON bool) error {
	l := ui.NewList(w, asJSON, fmt.Sprintf("%-4s %-64s %6s %12s", "KIND", "HASH", "CHUNKS", "SIZE"))
	if asJSON {
		l.Doc.Begin("entries")
	}
	for e := range c.Entries() {
		var err error
		if asJSON {
			err = l.Element(keptDoc{e.Kind, entryHash(e), e.Chunks, e.Bytes})
		} else {
			err = l.Line(fmt.Sprintf("%s %s %6d %12s", e.Kind, entryHash(e), e.Chunks, l.Size(e.Bytes)))
		}
		if err != nil {
			return err
		}
	}
	return l.Close()
}
