package picture

import (
	"context"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/delta"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
)

// MaxFiles is the number of files that the page of a difference draws.
const MaxFiles = maxSections - 1

// Diff writes the page of the difference between two trees with names.
func Diff(ctx context.Context, w io.Writer, from, to string, c *delta.Comparison) error {
	p := page{
		Title: "Changes from " + shorten(from) + " to " + shorten(to),
		Lead:  "Sizes are packed, as stored. Content that the index holds has no chunks and counts nothing.",
		Totals: []total{
			{"Shared", costText(c.Shared), classes[Shared]},
			{"New", costText(c.Fetch), classes[New]},
			{"Removed", costText(c.Removed), classes[Removed]},
		},
		Legend: []legend{
			{classes[Shared], "in both trees"}, {classes[New], "only in the new tree"}, {classes[Removed], "only in the old tree"},
		},
		Notes: []string{"Totals count a chunk once. The strips of files show it at each place."},
	}
	p.Sections = append(p.Sections, section{Name: "All changed files", Strips: []*Strip{totalStrip(c)}})
	for i := range c.Files {
		s, err := fileSection(ctx, c, &c.Files[i])
		if err != nil {
			return fmt.Errorf("%s: %w", c.Files[i].Path, err)
		}
		p.Sections = append(p.Sections, s)
	}
	if c.Rest > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("The largest %s have strips. The totals include the other %d.", ui.Plural(int64(len(c.Files)), "file"), c.Rest))
	}
	return p.write(w)
}

func costText(c delta.Cost) string {
	return fmt.Sprintf("%s in %s", ui.HumanSize(c.Bytes), ui.Plural(c.Chunks, "chunk"))
}

// totalStrip has one cell for each total.
func totalStrip(c *delta.Comparison) *Strip {
	s := new(Strip)
	for _, part := range []struct {
		kind Kind
		cost delta.Cost
	}{{Shared, c.Shared}, {New, c.Fetch}, {Removed, c.Removed}} {
		if part.cost.Chunks > 0 {
			s.Add(Cell{part.cost.Bytes, part.kind, classes[part.kind] + ": " + costText(part.cost)})
		}
	}
	return s
}

// fileSection has a strip for the old content of a file, and one for the new.
func fileSection(ctx context.Context, c *delta.Comparison, f *delta.FileTerms) (section, error) {
	s := section{Name: ui.QuoteName(f.Path)}
	for _, side := range []struct {
		name   string
		terms  []codec.Term
		chunks func(context.Context, *delta.FileTerms, func(codec.Hash, uint32, int64, bool)) error
		only   Kind
	}{{"before", f.Old, c.OldChunks, Removed}, {"after", f.New, c.NewChunks, New}} {
		if len(side.terms) == 0 {
			continue
		}
		strip, n := new(Strip), 0
		err := side.chunks(ctx, f, func(x codec.Hash, chunk uint32, packed int64, only bool) {
			kind := Shared
			if only {
				kind = side.only
			}
			strip.Add(Cell{packed, kind, fmt.Sprintf("chunk %d, %s: %d bytes, xorb %.8v chunk %d", n, classes[kind], packed, x, chunk)})
			n++
		})
		if err != nil {
			return s, err
		}
		strip.Name = fmt.Sprintf("%s: %s in %s", side.name, ui.HumanSize(strip.total()), ui.Plural(strip.cells, "chunk"))
		s.Strips = append(s.Strips, strip)
	}
	return s, nil
}
