package picture

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// The drawing of a strip is 1000 units wide. Damage is never narrower than leastDamage.
const (
	stripWidth  = 1000.0
	leastDamage = 5.0
	maxGaps     = 60 // groups with lines between them
)

// A drawnStrip is a strip as the page has it.
type drawnStrip struct {
	Name   string
	Merged string // the number of cells and groups; "" if each cell is drawn
	Gaps   bool   // few enough cells for lines between them
	Groups []drawnGroup
}

// A drawnGroup is a tooltip and a rectangle for each kind.
type drawnGroup struct {
	Title string
	Rects []rect
}

type rect struct{ Class, X, Width string }

// draw returns the drawing of a strip with at most n groups.
func (s *Strip) draw(n int) drawnStrip {
	s.shrink(n)
	d := drawnStrip{Name: shorten(s.Name), Gaps: len(s.groups) <= maxGaps}
	if int64(len(s.groups)) < s.cells {
		d.Merged = fmt.Sprintf("%s in %d groups", cellCount(s.cells), len(s.groups))
	}
	x, scale := 0.0, stripWidth/float64(max(s.total(), 1))
	for _, g := range s.groups {
		drawn := drawnGroup{Title: g.title()}
		for kind, size := range g.sizes {
			if size == 0 {
				continue
			}
			from, width := x, float64(size)*scale
			x += width
			if Kind(kind) == Damaged && width < leastDamage {
				from, width = max(0, min(from, stripWidth-leastDamage)), leastDamage
			}
			drawn.Rects = append(drawn.Rects, rect{classes[kind], decimal(from), decimal(width)})
		}
		d.Groups = append(d.Groups, drawn)
	}
	damagedLast(d.Groups)
	return d
}

// damagedLast moves groups with damage behind the others, because a later group covers an
// earlier one.
func damagedLast(groups []drawnGroup) {
	var sound, damaged []drawnGroup
	for _, g := range groups {
		if g.Rects[len(g.Rects)-1].Class == classes[Damaged] {
			damaged = append(damaged, g)
		} else {
			sound = append(sound, g)
		}
	}
	copy(groups, append(sound, damaged...))
}

func (g *group) title() string {
	if g.cells == 1 {
		return shorten(g.first)
	}
	return fmt.Sprintf("%s: %s … %s", cellCount(int64(g.cells)), shorten(g.first), shorten(g.last))
}

func cellCount(n int64) string { return ui.Plural(n, "cell") }

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }

// shorten returns a printable text of at most maxText characters. It omits the middle.
func shorten(s string) string {
	if len(s) > 8*maxText {
		s = s[:4*maxText] + "…" + s[len(s)-4*maxText:]
	}
	s = strings.TrimSpace(ui.Printable(s))
	if utf8.RuneCountInString(s) <= maxText {
		return s
	}
	runes := []rune(s)
	return string(runes[:maxText/3]) + "…" + string(runes[len(runes)-2*maxText/3+1:])
}
