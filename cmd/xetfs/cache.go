package main

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
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
				doc, err := newStatusDoc(f, c)
				if err != nil {
					return err
				}
				return doc.print(cmd.OutOrStdout(), asJSON)
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// A statusDoc is the output of cache status. Its names in JSON are stable.
type statusDoc struct {
	dir        string
	shared     bool
	owner      *int
	stats      disk.Stats
	freeBytes  int64
	indexBytes int64
}

func newStatusDoc(f *stack.CacheFolder, c *stack.DiskCache) (*statusDoc, error) {
	doc := &statusDoc{dir: f.Path, stats: c.Stats()}
	if c.Shared() {
		pid := stack.CacheOwner(f.Path)
		if pid != 0 {
			doc.owner = &pid
		}
		doc.shared = pid != 0 || f.Writable()
	}
	// The rest, neither chunks nor files, is the index and the small files of the cache.
	doc.indexBytes = max(0, doc.stats.Bytes-doc.stats.SegmentBytes-doc.stats.WholeBytes)
	var err error
	doc.freeBytes, err = stack.FileSystemFree(f.Path)
	return doc, err
}

func (d *statusDoc) print(w io.Writer, asJSON bool) error {
	if !asJSON {
		return d.text(w)
	}
	doc := ui.NewDocument(w)
	doc.Field("dir", d.dir)
	doc.Field("shared", d.shared)
	doc.Field("owner", d.owner)
	doc.Field("chunks", d.stats.Chunks)
	doc.Field("files", d.stats.Wholes)
	doc.Field("bytes", d.stats.Bytes)
	doc.Field("chunk_bytes", d.stats.SegmentBytes)
	doc.Field("file_bytes", d.stats.WholeBytes)
	doc.Field("index_bytes", d.indexBytes)
	doc.Field("free_bytes", d.freeBytes)
	return doc.Close()
}

func (d *statusDoc) text(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "folder   %s\n", ui.Printable(d.dir))
	switch {
	case d.owner != nil:
		fmt.Fprintf(&b, "writer   process %d\n", *d.owner)
	case d.shared:
		fmt.Fprintf(&b, "writer   another process\n")
	default:
		fmt.Fprintf(&b, "writer   none\n")
	}
	fmt.Fprintf(&b, "chunks   %s (pages are counted as such), %s\n", ui.Plural(int64(d.stats.Chunks), "chunk"), ui.HumanSize(d.stats.SegmentBytes))
	fmt.Fprintf(&b, "files    %s, %s\n", ui.Plural(int64(d.stats.Wholes), "whole file"), ui.HumanSize(d.stats.WholeBytes))
	fmt.Fprintf(&b, "index    %s\n", ui.HumanSize(d.indexBytes))
	fmt.Fprintf(&b, "together %s, and %s are free\n", ui.HumanSize(d.stats.Bytes), ui.HumanSize(d.freeBytes))
	_, err := w.Write(b.Bytes())
	return err
}
