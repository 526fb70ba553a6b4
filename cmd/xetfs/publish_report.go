package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/publish"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A publishReport prints the events and the summary of publish.
type publishReport struct {
	folderReport
	asJSON bool
	out    io.Writer
}

// A publishResult is the outcome of the command.
type publishResult struct {
	publish.Result
	symbol string
	dry    bool
	listed bool  // a folder was read
	pages  int64 // index pages that were written
	took   time.Duration
}

func newPublishReport(cmd *cobra.Command, asJSON bool, bar *ui.Progress) *publishReport {
	r := &publishReport{asJSON: asJSON, out: cmd.OutOrStdout()}
	r.Notices = ui.NewNotices(cmd.CommandPath(), cmd.ErrOrStderr(), bar)
	return r
}

// finish prints the summary.
func (r *publishReport) finish(p publishResult) error {
	if r.asJSON {
		return cmp.Or(r.finishJSON(p), incomplete(r.Notices))
	}
	var b bytes.Buffer
	r.headline(&b, p)
	if p.listed {
		r.summary(&b, p)
	}
	skippedLines(&b, "%-10s", r.Notices)
	_, err := r.out.Write(b.Bytes())
	return cmp.Or(err, incomplete(r.Notices))
}

// headline writes the version and its changes.
func (r *publishReport) headline(b *bytes.Buffer, p publishResult) {
	switch {
	case p.dry:
		fmt.Fprintf(b, "dry run   nothing was stored, %s is as it was\n", p.symbol)
	case p.Published:
		fmt.Fprintf(b, "published %s@%d, root %s, in %.1f s\n", p.symbol, p.Version.Number, p.Version.Root, p.took.Seconds())
	default:
		fmt.Fprintf(b, "unchanged %s@%d is the same already: no new version\n", p.symbol, p.Version.Number)
	}
	if !p.dry {
		fmt.Fprintf(b, "tree      %s, %s\n", ui.Plural(p.Version.Entries, "entry"), ui.HumanSize(p.Version.Bytes))
	}
	if d := p.Diff; p.Before != nil && (p.Published || p.dry) {
		fmt.Fprintf(b, "changes   %d added, %d changed, %d removed since %s@%d\n", d.Added, d.Changed, d.Removed, p.symbol, p.Before.Number)
	}
}

func (r *publishReport) summary(b *bytes.Buffer, p publishResult) {
	c, s := p.Folder, p.Stats
	fmt.Fprintf(b, "folder    %s, %s, %s\n", ui.Plural(c.Entries, "entry"), ui.Plural(c.Files, "file"), ui.HumanSize(c.Bytes))
	if c.Unchanged > 0 {
		fmt.Fprintf(b, "not read  %s, %s: unchanged since the last publish\n", ui.Plural(c.Unchanged, "file"), ui.HumanSize(c.UnchangedBytes))
	}
	if p.Excluded > 0 {
		fmt.Fprintf(b, "excluded  %s\n", ui.Plural(p.Excluded, "path"))
	}
	if s.Chunks > 0 {
		fmt.Fprintf(b, "chunks    %d, of which %d are new: %s, deduplicated %s\n", s.Chunks, s.NewChunks, ui.HumanSize(s.NewBytes), ui.HumanSize(s.OldBytes))
	}
	if p.dry {
		fmt.Fprintf(b, "to store  %s in %s and %s\n", ui.HumanSize(s.Packed), ui.Plural(s.Xorbs, "xorb"), ui.Plural(s.Shards, "shard"))
		return
	}
	fmt.Fprintf(b, "stored    %s in %s and %s, %s\n", ui.HumanSize(s.Packed), ui.Plural(s.Xorbs, "xorb"), ui.Plural(s.Shards, "shard"), ui.Plural(p.pages, "index page"))
}

// finishJSON writes the fields that the help of publish promises.
func (r *publishReport) finishJSON(p publishResult) error {
	out := bufio.NewWriter(r.out)
	d := ui.NewDocument(out)
	d.Field("symbol", p.symbol)
	d.Field("published", p.Published)
	d.Field("dry_run", p.dry)
	if p.dry {
		d.Field("version", nil)
		d.Field("root", nil)
	} else {
		d.Field("version", p.Version.Number)
		d.Field("root", p.Version.Root.String())
		d.Field("entries", p.Version.Entries)
		d.Field("bytes", p.Version.Bytes)
		d.Field("pages", p.pages)
	}
	d.Field("added", p.Diff.Added)
	d.Field("changed", p.Diff.Changed)
	d.Field("removed", p.Diff.Removed)
	if p.listed {
		r.folderJSON(d, p)
	}
	d.Field("seconds", p.took.Seconds())
	if err := d.Close(); err != nil {
		return err
	}
	return out.Flush()
}

func (r *publishReport) folderJSON(d *ui.Document, p publishResult) {
	c, s := p.Folder, p.Stats
	d.Field("folder_entries", c.Entries)
	d.Field("files", c.Files)
	d.Field("file_bytes", c.Bytes)
	d.Field("unchanged_files", c.Unchanged)
	d.Field("unchanged_bytes", c.UnchangedBytes)
	d.Field("inline_files", c.Inline)
	d.Field("excluded", p.Excluded)
	skipped, missing := r.Skipped()
	d.Field("skipped", skipped)
	d.Field("missing", missing)
	d.Field("chunks", s.Chunks)
	d.Field("new_chunks", s.NewChunks)
	d.Field("new_bytes", s.NewBytes)
	d.Field("packed_bytes", s.Packed)
	d.Field("deduplicated_bytes", s.OldBytes)
	d.Field("xorbs", s.Xorbs)
	d.Field("shards", s.Shards)
}
