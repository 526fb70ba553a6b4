package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/publish"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A Publish prints the events and the summary of publish. It is an ingest.Report.
type Publish struct {
	*Folder
	out    io.Writer
	asJSON bool
}

// NewPublish returns a report without events.
func NewPublish(o Output) *Publish {
	return &Publish{Folder: newFolder(o), out: o.Out, asJSON: o.JSON}
}

// A PublishResult is the outcome of the command.
type PublishResult struct {
	publish.Result
	Symbol     string
	DryRun     bool
	ReadFolder bool
	Pages      int64 // index pages that were written
	Took       time.Duration
}

// Close prints the summary.
func (p *Publish) Close(r PublishResult) error {
	if p.asJSON {
		return cmp.Or(p.closeJSON(r), p.incomplete())
	}
	var b bytes.Buffer
	headline(&b, r)
	if r.ReadFolder {
		folderText(&b, r)
	}
	p.skippedText(&b, "%-10s")
	_, err := p.out.Write(b.Bytes())
	return cmp.Or(err, p.incomplete())
}

// headline writes the version and its changes.
func headline(b *bytes.Buffer, r PublishResult) {
	switch {
	case r.DryRun:
		fmt.Fprintf(b, "dry run   nothing was stored, %s is as it was\n", r.Symbol)
	case r.Published:
		fmt.Fprintf(b, "published %s@%d, root %s, in %.1f s\n", r.Symbol, r.Version.Number, r.Version.Identity, r.Took.Seconds())
	default:
		fmt.Fprintf(b, "unchanged %s@%d is the same already: no new version\n", r.Symbol, r.Version.Number)
	}
	if !r.DryRun {
		fmt.Fprintf(b, "tree      %s, %s\n", ui.Plural(r.Version.Entries, "entry"), ui.HumanSize(r.Version.Bytes))
	}
	if d := r.Diff; r.Before != nil && (r.Published || r.DryRun) {
		fmt.Fprintf(b, "changes   %d added, %d changed, %d removed since %s@%d\n", d.Added, d.Changed, d.Removed, r.Symbol, r.Before.Number)
	}
}

// folderText writes what was read and stored.
func folderText(b *bytes.Buffer, r PublishResult) {
	c := r.Folder
	fmt.Fprintf(b, "folder    %s, %s, %s\n", ui.Plural(c.Entries, "entry"), ui.Plural(c.Files, "file"), ui.HumanSize(c.Bytes))
	if c.Unchanged > 0 {
		fmt.Fprintf(b, "not read  %s, %s: unchanged since the last publish\n", ui.Plural(c.Unchanged, "file"), ui.HumanSize(c.UnchangedBytes))
	}
	if r.Excluded > 0 {
		fmt.Fprintf(b, "excluded  %s\n", ui.Plural(r.Excluded, "path"))
	}
	if r.Stats.Chunks > 0 {
		fmt.Fprintf(b, "chunks    %s\n", chunksText(r.Stats))
	}
	if r.DryRun {
		fmt.Fprintf(b, "to store  %s\n", storedText(r.Stats))
		return
	}
	fmt.Fprintf(b, "stored    %s, %s\n", storedText(r.Stats), ui.Plural(r.Pages, "index page"))
}

// closeJSON writes the fields that the help of publish promises.
func (p *Publish) closeJSON(r PublishResult) error {
	d := ui.NewDocument(p.out)
	d.Field("symbol", r.Symbol)
	d.Field("published", r.Published)
	d.Field("dry_run", r.DryRun)
	if r.DryRun {
		for _, name := range []string{"version", "root", "entries", "bytes", "pages"} {
			d.Field(name, nil)
		}
	} else {
		d.Field("version", r.Version.Number)
		d.Field("root", r.Version.Identity.String())
		d.Field("entries", r.Version.Entries)
		d.Field("bytes", r.Version.Bytes)
		d.Field("pages", r.Pages)
	}
	d.Field("added", r.Diff.Added)
	d.Field("changed", r.Diff.Changed)
	d.Field("removed", r.Diff.Removed)
	if r.ReadFolder {
		p.folderFields(d, r)
	}
	d.Field("seconds", r.Took.Seconds())
	return d.Close()
}

func (p *Publish) folderFields(d *ui.Document, r PublishResult) {
	c := r.Folder
	d.Field("folder_entries", c.Entries)
	d.Field("files", c.Files)
	d.Field("file_bytes", c.Bytes)
	d.Field("unchanged_files", c.Unchanged)
	d.Field("unchanged_bytes", c.UnchangedBytes)
	d.Field("inline_files", c.Inline)
	d.Field("excluded", r.Excluded)
	p.skippedFields(d)
	packFields(d, r.Stats, r.Took)
}
