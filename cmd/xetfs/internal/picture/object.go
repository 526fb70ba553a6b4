package picture

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// WriteObject writes the page of an object to the file path. Create describes path, and
// inspect.Object describes as.
func WriteObject(path string, stdout io.Writer, r io.ReaderAt, size int64, name, as string) error {
	o, err := inspect.NewOutline(r, size, name, as)
	if err != nil {
		return err
	}
	f, err := Create(path, stdout)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := Object(f, name, o); err != nil {
		return err
	}
	return f.Commit()
}

// Object writes the page of a shard or xorb.
func Object(w io.Writer, name string, o *inspect.Outline) error {
	name = ui.QuoteName(name)
	p := page{
		Title:  shorten(name),
		Lead:   fmt.Sprintf("A %s of %d bytes. The width of a cell is its number of bytes in the object.", o.Kind, o.Size),
		Legend: []legend{{classes[Plain], "chunks and terms"}, {classes[Header], "headers, tables and hashes"}, {classes[Damaged], "damage"}},
	}
	all := len(o.Faults)
	for _, f := range o.Faults[:min(all, maxDamages)] {
		p.Damages = append(p.Damages, damage{f.Offset, shortenReason(f.Reason)})
	}
	if more := max(all-maxDamages, 0) + o.More; more > 0 {
		p.Damaged = fmt.Sprintf("The table omits %s.", ui.Plural(int64(more), "further place"))
	}
	for _, f := range o.Facts {
		p.Facts = append(p.Facts, total{Name: f[0], Value: shorten(f[1])})
	}
	sections, blocks := objectSections(o)
	if omitted := len(sections) - maxSections; omitted > 0 {
		sections = sections[:maxSections]
		blocks += omitted
	}
	if blocks > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%s of files and xorbs have no strip of their own. The strips of the sections include them.", ui.Plural(int64(blocks), "further block")))
	}
	p.Sections = sections
	return p.write(w)
}

// shortenReason is shorten for a reason, which may have two hashes.
func shortenReason(s string) string {
	if s = ui.Printable(s); len(s) > 4*maxText {
		return shorten(s)
	}
	return s
}

// objectSections returns a strip for each part of an object and for each of its first blocks,
// and the number of omitted blocks.
func objectSections(o *inspect.Outline) (all []section, omitted int) {
	whole := section{Name: "The object", Strips: []*Strip{{}}}
	var parts, blocks []section
	var part, block *Strip
	blockCount := 0
	o.Each(func(r inspect.Region) {
		cell := Cell{r.Size, Header, fmt.Sprintf("byte %d: %s", r.Offset, strings.TrimSpace(r.Text))}
		switch {
		case r.Damaged:
			cell.Kind = Damaged
		case r.IsCell:
			cell.Kind = Plain
		}
		whole.Strips[0].Add(cell)
		if r.Part != "" {
			part, block = new(Strip), nil
			parts = append(parts, section{Name: r.Part, Strips: []*Strip{part}})
		}
		if part != nil {
			part.Add(cell)
		}
		if r.Block != "" {
			block = nil
			if blockCount++; blockCount <= maxSections {
				block = new(Strip)
				blocks = append(blocks, section{Name: r.Block, Strips: []*Strip{block}})
			}
		}
		if block != nil {
			block.Add(cell)
		}
	})
	all = slices.Concat([]section{whole}, parts, blocks)
	return all, blockCount - len(blocks)
}
