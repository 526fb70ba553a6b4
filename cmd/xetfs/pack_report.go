package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/pack"
)

// A packReport prints the list and the summary of pack.
type packReport struct {
	folderReport
	o   packOptions
	bar *ui.Progress

	out *bufio.Writer
	doc *ui.Document // of --json; nil: text
	err error        // of out
}

// A packedDoc is a file as pack --list --json shows it. The names are a promise.
type packedDoc struct {
	Path   string     `json:"path"`
	Size   int64      `json:"size"`
	Hash   codec.Hash `json:"hash"`
	SHA256 *string    `json:"sha256"`
}

func newPackReport(cmd *cobra.Command, o packOptions, bar *ui.Progress) *packReport {
	r := &packReport{o: o, bar: bar}
	r.Notices = ui.NewNotices(cmd.CommandPath(), cmd.ErrOrStderr(), bar)
	r.out = bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
	if o.asJSON {
		r.doc = ui.NewDocument(r.out)
		if o.list {
			r.doc.Begin("list")
		}
	}
	return r
}

// file prints a packed file.
func (r *packReport) file(e *ingest.Entry) {
	if !r.o.list {
		return
	}
	doc := packedDoc{Path: e.FullPath(), Size: e.Size, Hash: e.ID.File}
	sum := "-"
	if e.SHA256 != nil {
		doc.SHA256 = inspect.PlainHex(*e.SHA256)
		sum = *doc.SHA256
	}
	if r.doc != nil {
		r.doc.Element(doc)
		return
	}
	r.bar.Clear()
	_, err := fmt.Fprintf(r.out, "%12d  %s  %s  %s\n", doc.Size, doc.Hash, sum, ui.QuoteName(doc.Path))
	r.err = cmp.Or(r.err, err)
}

// finish prints the summary.
func (r *packReport) finish(s pack.Stats, took time.Duration) error {
	if r.doc != nil {
		r.finishJSON(s, took)
		if err := r.doc.Close(); err != nil {
			return err
		}
	} else {
		_, err := r.out.Write(r.summary(s, took))
		if err := cmp.Or(r.err, err); err != nil {
			return err
		}
	}
	return cmp.Or(r.out.Flush(), incomplete(r.Notices))
}

// finishJSON writes the fields that the help of pack promises.
func (r *packReport) finishJSON(s pack.Stats, took time.Duration) {
	if r.o.list {
		r.doc.End()
	}
	skipped, missing := r.Skipped()
	r.doc.Field("skipped", skipped)
	r.doc.Field("missing", missing)
	r.doc.Field("files", s.Files)
	r.doc.Field("bytes", s.Bytes)
	r.doc.Field("chunks", s.Chunks)
	r.doc.Field("new_chunks", s.NewChunks)
	r.doc.Field("new_bytes", s.NewBytes)
	r.doc.Field("packed_bytes", s.Packed)
	r.doc.Field("deduplicated_bytes", s.OldBytes)
	r.doc.Field("again_chunks", s.Again)
	r.doc.Field("again_bytes", s.AgainBytes)
	r.doc.Field("xorbs", s.Xorbs)
	r.doc.Field("shards", s.Shards)
	r.doc.Field("ratio", ratio(s.Bytes, s.Packed))
	r.doc.Field("compression", ratio(s.NewBytes, s.Packed))
	r.doc.Field("seconds", took.Seconds())
	r.doc.Field("bytes_per_second", perSecond(s.Bytes, took))
	r.doc.Field("stages", map[string]float64{
		"read_and_cut": s.CutTime.Seconds(), "sha256": s.SHATime.Seconds(), "hash": s.HashTime.Seconds(),
		"decide": s.DecideTime.Seconds(), "compress": s.PackTime.Seconds(), "place": s.PlaceTime.Seconds(),
		"store": s.StoreTime.Seconds(),
	})
}

// ratio is a by b, or nil if b is 0.
func ratio(a, b int64) *float64 {
	if b == 0 {
		return nil
	}
	q := float64(a) / float64(b)
	return &q
}

func perSecond(bytes int64, took time.Duration) int64 {
	return int64(float64(bytes) / max(took.Seconds(), 1e-9))
}

// summary is what was done, for people.
func (r *packReport) summary(s pack.Stats, took time.Duration) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "packed   %s, %s in %.1f s: %s/s\n", ui.Plural(s.Files, "file"), ui.HumanSize(s.Bytes), took.Seconds(), ui.HumanSize(perSecond(s.Bytes, took)))
	fmt.Fprintf(&b, "chunks   %d, of which %d are new: %s, deduplicated %s\n", s.Chunks, s.NewChunks, ui.HumanSize(s.NewBytes), ui.HumanSize(s.OldBytes))
	fmt.Fprintf(&b, "stored   %s in %s and %s\n", ui.HumanSize(s.Packed), ui.Plural(s.Xorbs, "xorb"), ui.Plural(s.Shards, "shard"))
	if s.Again > 0 {
		fmt.Fprintf(&b, "again    %s in %s were stored once more, so that no file is in crumbs\n", ui.HumanSize(s.AgainBytes), ui.Plural(s.Again, "chunk"))
	}
	skippedLines(&b, "%-9s", r.Notices)
	return b.Bytes()
}
