package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
)

// A publishReport is what publish tells of its work. It may be used by several
// goroutines.
type publishReport struct {
	folderReport
	asJSON bool
	out    io.Writer

	mu     sync.Mutex
	counts publishCounts // guarded by mu
}

// publishCounts are what was found in the folder.
type publishCounts struct {
	entries, files, bytes int64
	same, sameBytes       int64 // files, by the stat cache
	inline                int64 // files whose content is in the index
}

// A publishResult is what came out of a publish.
type publishResult struct {
	symbol    string
	row       names.Row  // of the new version, or of the one that is there
	before    *names.Row // the newest version before; nil: there was none
	published bool
	dry       bool
	listed    bool // a folder was read
	stats     pack.Stats
	pages     int64 // that were written
	excluded  int64
	diff      treeDiff
	took      time.Duration
}

// A treeDiff counts the entries in which two trees differ.
type treeDiff struct{ added, changed, removed int64 }

func (d *treeDiff) count(c page.Change) {
	switch {
	case c.Old == nil:
		d.added++
	case c.New == nil:
		d.removed++
	default:
		d.changed++
	}
}

func newPublishReport(cmd *cobra.Command, asJSON bool, bar *ui.Progress) *publishReport {
	r := &publishReport{asJSON: asJSON, out: cmd.OutOrStdout()}
	r.Notices = ui.NewNotices(cmd.CommandPath(), cmd.ErrOrStderr(), bar)
	return r
}

// Add implements ingest.Report.
func (r *publishReport) Add(e *ingest.Entry) {
	r.folderReport.Add(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.counts
	c.entries++
	if e.Type != page.File {
		return
	}
	c.files++
	c.bytes += e.Size
	if e.Inline != nil {
		c.inline++
	}
	if e.Unchanged {
		c.same++
		c.sameBytes += e.Size
	}
}

// so returns what has been counted so far.
func (r *publishReport) so() publishCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// finish prints the summary.
func (r *publishReport) finish(p publishResult) error {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// headline says what has happened.
func (r *publishReport) headline(b *bytes.Buffer, p publishResult) {
	switch {
	case p.dry:
		fmt.Fprintf(b, "dry run   nothing was stored, %s is as it was\n", p.symbol)
	case p.published:
		fmt.Fprintf(b, "published %s@%d, root %s, in %.1f s\n", p.symbol, p.row.Number, p.row.Root, p.took.Seconds())
	default:
		fmt.Fprintf(b, "unchanged %s@%d is the same already: no new version\n", p.symbol, p.row.Number)
	}
	if !p.dry {
		fmt.Fprintf(b, "tree      %s, %s\n", ui.Plural(p.row.Entries, "entry"), ui.HumanSize(p.row.Bytes))
	}
	if d := p.diff; p.before != nil && (p.published || p.dry) {
		fmt.Fprintf(b, "changes   %d added, %d changed, %d removed since %s@%d\n", d.added, d.changed, d.removed, p.symbol, p.before.Number)
	}
}

func (r *publishReport) summary(b *bytes.Buffer, p publishResult) {
	c, s := r.counts, p.stats
	fmt.Fprintf(b, "folder    %s, %s, %s\n", ui.Plural(c.entries, "entry"), ui.Plural(c.files, "file"), ui.HumanSize(c.bytes))
	if c.same > 0 {
		fmt.Fprintf(b, "not read  %s, %s: unchanged since the last publish\n", ui.Plural(c.same, "file"), ui.HumanSize(c.sameBytes))
	}
	if p.excluded > 0 {
		fmt.Fprintf(b, "excluded  %s\n", ui.Plural(p.excluded, "path"))
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
	d.Field("published", p.published)
	d.Field("dry_run", p.dry)
	if p.dry {
		d.Field("version", nil)
		d.Field("root", nil)
	} else {
		d.Field("version", p.row.Number)
		d.Field("root", p.row.Root.String())
		d.Field("entries", p.row.Entries)
		d.Field("bytes", p.row.Bytes)
		d.Field("pages", p.pages)
	}
	d.Field("added", p.diff.added)
	d.Field("changed", p.diff.changed)
	d.Field("removed", p.diff.removed)
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
	c, s := r.counts, p.stats
	d.Field("folder_entries", c.entries)
	d.Field("files", c.files)
	d.Field("file_bytes", c.bytes)
	d.Field("unchanged_files", c.same)
	d.Field("unchanged_bytes", c.sameBytes)
	d.Field("inline_files", c.inline)
	d.Field("excluded", p.excluded)
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
