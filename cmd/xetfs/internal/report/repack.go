package report

import (
	"bytes"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/fs/catalog/repack"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// A RepackProgress shows the progress of a repack on a terminal.
type RepackProgress struct{ line *ui.Status }

// NewRepackProgress returns the progress of a command on standard error.
func NewRepackProgress(errOut io.Writer) *RepackProgress {
	return &RepackProgress{line: ui.NewStatus(errOut)}
}

// Show shows the present step.
func (r *RepackProgress) Show(p repack.Progress) {
	switch {
	case p.Doing == repack.Copying:
		r.line.Show(fmt.Sprintf("%s: %s of %s", p.Doing, ui.HumanSize(p.Done), ui.HumanSize(p.Total)))
	case p.Total > 0:
		r.line.Show(fmt.Sprintf("%s: %d of %s", p.Doing, p.Done, ui.Plural(p.Total, "symbol")))
	default:
		r.line.Show(fmt.Sprintf("%s: %s", p.Doing, ui.Plural(p.Done, "object")))
	}
}

// Clear removes the step from the screen until the next call of Show.
func (r *RepackProgress) Clear() { r.line.Clear() }

// RepackPlan returns the lines that say what a repack replaces.
func RepackPlan(u *sweep.Usage, p *repack.Plan) string {
	if p.IsEmpty() {
		return fmt.Sprintf("%s; nothing to repack\n", usageText(u))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", usageText(u))
	fmt.Fprintf(&b, "replaced: %d of %s (%s, of which %s are copied), %d of %s (%s)\n",
		p.Replaced.Objects, ui.Plural(int64(len(u.Xorbs)), "xorb"), ui.HumanSize(p.Replaced.Bytes), ui.HumanSize(p.Copy),
		p.Lists.Objects, ui.Plural(int64(len(u.Shards)), "shard"), ui.HumanSize(p.Lists.Bytes))
	fmt.Fprintf(&b, "a sweep then frees %s, after the time of grace\n", ui.HumanSize(p.Freed()))
	return b.String()
}

// RepackResult returns the lines that say what a repack did.
func RepackResult(r *repack.Report) string {
	var b bytes.Buffer
	if r.Plan.IsEmpty() {
		return ""
	}
	fmt.Fprintf(&b, "moved %s of %s, and %s: stored %s (%s) and %s, read %s\n",
		ui.Plural(int64(r.Versions), "version"), ui.Plural(int64(r.Symbols), "symbol"), ui.Plural(int64(r.Snapshots), "snapshot"),
		ui.Plural(r.Xorbs.Objects, "xorb"), ui.HumanSize(r.Xorbs.Bytes), ui.Plural(r.Shards.Objects, "shard"), ui.HumanSize(r.Read))
	if r.Reused.Objects > 0 {
		fmt.Fprintf(&b, "an earlier run had stored %s (%s)\n", ui.Plural(r.Reused.Objects, "xorb"), ui.HumanSize(r.Reused.Bytes))
	}
	if r.Left > 0 {
		fmt.Fprintf(&b, "%s cannot be proven and stayed; xetfs catalog check names the damage\n", ui.Plural(r.Left, "file"))
	}
	return b.String()
}

// WriteRepack prints the JSON of a repack.
func WriteRepack(w io.Writer, r *repack.Report, dryRun bool) error {
	doc := ui.NewDocument(w)
	doc.Field("dry_run", dryRun)
	doc.Field("usage", newUsageDoc(r.Usage, r.Plan))
	doc.Field("stored", map[string]countsDoc{"xorb": countsDoc(r.Xorbs), "shard": countsDoc(r.Shards)})
	doc.Field("reused", countsDoc(r.Reused))
	doc.Field("read_bytes", r.Read)
	doc.Field("left_files", r.Left)
	doc.Field("left_xorbs", leftXorbs(r.Usage))
	doc.Field("symbols", r.Symbols)
	doc.Field("versions", r.Versions)
	doc.Field("snapshots", r.Snapshots)
	return doc.Close()
}

// A leftXorbDoc is a xorb that a repack leaves as it is, in JSON.
type leftXorbDoc struct {
	Hash   codec.Hash `json:"hash"`
	Reason string     `json:"reason"`
}

func leftXorbs(u *sweep.Usage) []leftXorbDoc {
	docs := []leftXorbDoc{} // not null in JSON
	for _, h := range u.Unusable() {
		docs = append(docs, leftXorbDoc{h, u.Xorbs[h].Err.Error()})
	}
	return docs
}

// A usageDoc is the use of shards and xorbs in JSON, and what a repack would replace.
type usageDoc struct {
	Live       int64     `json:"live_bytes"`
	Unused     int64     `json:"unused_bytes"`
	Xorbs      int       `json:"xorbs"`
	Shards     int       `json:"shards"`
	Replaced   countsDoc `json:"replaced_xorbs"`
	Lists      countsDoc `json:"replaced_shards"`
	Freed      int64     `json:"freed_bytes"`
	Worthwhile bool      `json:"worthwhile"`
}

func newUsageDoc(u *sweep.Usage, p *repack.Plan) *usageDoc {
	return &usageDoc{
		Live: u.LiveBytes(), Unused: u.UnusedBytes(), Xorbs: len(u.Xorbs), Shards: len(u.Shards),
		Replaced: countsDoc(p.Replaced), Lists: countsDoc(p.Lists), Freed: p.Freed(), Worthwhile: p.IsWorthwhile(),
	}
}

// usageText says how much of the xorbs is live.
func usageText(u *sweep.Usage) string {
	return fmt.Sprintf("xorbs: %s live, %s unused", ui.HumanSize(u.LiveBytes()), ui.HumanSize(u.UnusedBytes()))
}

// usageLine is usageText, with the advice to repack.
func usageLine(u *sweep.Usage) string {
	p := repack.NewPlan(u, repack.DefaultMaxUnused, nil)
	if !p.IsWorthwhile() {
		return usageText(u)
	}
	xorbs, shards := p.ObjectsAfter()
	return fmt.Sprintf("%s; worth a repack (xetfs catalog repack): it frees %s and %s", usageText(u), ui.HumanSize(p.Freed()),
		ui.Plural(p.Replaced.Objects+p.Lists.Objects-xorbs-shards, "object"))
}

// usageField returns the JSON of a usage; nil: it is not known.
func usageField(u *sweep.Usage) *usageDoc {
	if u == nil {
		return nil
	}
	return newUsageDoc(u, repack.NewPlan(u, repack.DefaultMaxUnused, nil))
}
