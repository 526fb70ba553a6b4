package picture

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// A page is the content of page.html.
type page struct {
	Title    string
	Lead     string
	Totals   []total
	Facts    []total
	Damages  []damage
	Damaged  string // sentence about the damages that are not listed
	Legend   []legend
	Sections []section
	Notes    []string
}

// A total is a number with its name and, if it has one, its colour.
type total struct{ Name, Value, Class string }

// A damage is a place that violates the format or a hash.
type damage struct {
	Offset int64
	Reason string
}

type legend struct{ Class, Text string }

// A section is one object or file with its strips.
type section struct {
	Name   string
	Strips []*Strip
	Drawn  []drawnStrip
}

// write writes the page within its bounds.
func (p *page) write(w io.Writer) error {
	groups := stripGroups
	for groups > leastGroups && p.groups(groups) > maxGroups {
		groups = groups * 3 / 4
	}
	merged := false
	for i := range p.Sections {
		s := &p.Sections[i]
		s.Name = shorten(s.Name)
		for _, strip := range s.Strips {
			drawn := strip.draw(groups)
			merged = merged || drawn.Merged != ""
			s.Drawn = append(s.Drawn, drawn)
		}
	}
	if merged {
		p.Notes = append(p.Notes, fmt.Sprintf("A strip shows at most %d groups of neighbouring cells. The colours of a group have the widths of its cells.", groups))
	}
	return pageTemplate.Execute(w, p)
}

// groups returns the number of groups of the page if a strip has at most n. A strip is halved
// until it fits.
func (p *page) groups(n int) (sum int) {
	for _, s := range p.Sections {
		for _, strip := range s.Strips {
			sum += min(len(strip.groups), n)
		}
	}
	return sum
}
