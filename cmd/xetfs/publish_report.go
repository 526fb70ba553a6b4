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

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
)

// A publishReport is what publish tells of its work. It may be used by several
// goroutines.
type publishReport struct {
	*Notices
	privates privateFiles
	asJSON   bool
	out      io.Writer

	mu     sync.Mutex
	counts publishCounts // guarded by mu
}

// publishCounts are what was found in the folder.
type publishCounts struct {
	entries, files, bytes int64
	same, sameBytes       int64 // files, as the record says
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

func newPublishReport(cmd *cobra.Command, asJSON bool, bar *progress) *publishReport {
	return &publishReport{asJSON: asJSON, out: cmd.OutOrStdout(), Notices: NewNotices(cmd.CommandPath(), cmd.ErrOrStderr(), bar)}
}

// count counts something that goes into the tree.
func (r *publishReport) count(f *found) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.counts
	c.entries++
	if f.entry.Type != page.File {
		return
	}
	c.files++
	c.bytes += f.entry.Size
	if f.entry.Inline != nil {
		c.inline++
	}
	if f.entry.Size > 0 && f.read == 0 && f.state == foundDone {
		c.same++
		c.sameBytes += f.entry.Size
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
		fmt.Fprintf(b, "tree      %s, %s\n", many(p.row.Entries, "entry"), human(p.row.Bytes))
	}
	if d := p.diff; p.before != nil && (p.published || p.dry) {
		fmt.Fprintf(b, "changes   %d added, %d changed, %d removed since %s@%d\n", d.added, d.changed, d.removed, p.symbol, p.before.Number)
	}
}

func (r *publishReport) summary(b *bytes.Buffer, p publishResult) {
	c, s := r.counts, p.stats
	fmt.Fprintf(b, "folder    %s, %s, %s\n", many(c.entries, "entry"), many(c.files, "file"), human(c.bytes))
	if c.same > 0 {
		fmt.Fprintf(b, "not read  %s, %s: unchanged since the last publish\n", many(c.same, "file"), human(c.sameBytes))
	}
	if p.excluded > 0 {
		fmt.Fprintf(b, "excluded  %s\n", many(p.excluded, "path"))
	}
	if s.Chunks > 0 {
		fmt.Fprintf(b, "chunks    %d, of which %d are new: %s, deduplicated %s\n", s.Chunks, s.NewChunks, human(s.NewBytes), human(s.OldBytes))
	}
	if p.dry {
		fmt.Fprintf(b, "to store  %s in %s and %s\n", human(s.Packed), many(s.Xorbs, "xorb"), many(s.Shards, "shard"))
		return
	}
	fmt.Fprintf(b, "stored    %s in %s and %s, %s\n", human(s.Packed), many(s.Xorbs, "xorb"), many(s.Shards, "shard"), many(p.pages, "index page"))
}

// finishJSON writes the fields that the help of publish promises.
func (r *publishReport) finishJSON(p publishResult) error {
	out := bufio.NewWriter(r.out)
	d := newDocument(out)
	d.field("symbol", p.symbol)
	d.field("published", p.published)
	d.field("dry_run", p.dry)
	if p.dry {
		d.field("version", nil)
		d.field("root", nil)
	} else {
		d.field("version", p.row.Number)
		d.field("root", p.row.Root.String())
		d.field("entries", p.row.Entries)
		d.field("bytes", p.row.Bytes)
		d.field("pages", p.pages)
	}
	d.field("added", p.diff.added)
	d.field("changed", p.diff.changed)
	d.field("removed", p.diff.removed)
	if p.listed {
		r.folderJSON(d, p)
	}
	d.field("seconds", p.took.Seconds())
	if err := d.close(); err != nil {
		return err
	}
	return out.Flush()
}

func (r *publishReport) folderJSON(d *document, p publishResult) {
	c, s := r.counts, p.stats
	d.field("folder_entries", c.entries)
	d.field("files", c.files)
	d.field("file_bytes", c.bytes)
	d.field("unchanged_files", c.same)
	d.field("unchanged_bytes", c.sameBytes)
	d.field("inline_files", c.inline)
	d.field("excluded", p.excluded)
	skipped, missing := r.Skipped()
	d.field("skipped", skipped)
	d.field("missing", missing)
	d.field("chunks", s.Chunks)
	d.field("new_chunks", s.NewChunks)
	d.field("new_bytes", s.NewBytes)
	d.field("packed_bytes", s.Packed)
	d.field("deduplicated_bytes", s.OldBytes)
	d.field("xorbs", s.Xorbs)
	d.field("shards", s.Shards)
}
