package picture

// Bounds of a page. A group takes up to 900 bytes of it.
const (
	maxSections = 48
	maxGroups   = 3000 // of a page
	stripGroups = 400  // of a strip
	leastGroups = 12   // of a strip in a page of many
	maxDamages  = 100
	maxText     = 100 // characters of a name or tooltip
)

// A Kind is the colour of a cell.
type Kind uint8

const (
	Shared Kind = iota
	New
	Removed
	Plain
	Header
	Damaged
	kinds
)

// classes are the names of the kinds in the page.
var classes = [kinds]string{"shared", "new", "removed", "plain", "header", "damaged"}

// A Cell is one chunk, term or field.
type Cell struct {
	Size int64 // width relative to the other cells of the strip
	Kind Kind
	Text string // tooltip
}

// A Strip is a row of cells. It merges neighbours while it grows, so its memory is bounded.
type Strip struct {
	Name   string
	groups []group
	merge  int // cells of a full group, a power of two
	cells  int64
	sizes  [kinds]int64
}

// A group is some neighbouring cells, drawn as one.
type group struct {
	cells       int
	sizes       [kinds]int64
	first, last string
}

// Add adds a cell at the end.
func (s *Strip) Add(c Cell) {
	c.Size = max(c.Size, 1)
	g := group{cells: 1, first: c.Text, last: c.Text}
	g.sizes[c.Kind] = c.Size
	s.cells++
	s.sizes[c.Kind] += c.Size
	if len(s.groups) == 2*stripGroups && s.groups[len(s.groups)-1].cells >= max(s.merge, 1) {
		s.halve()
	}
	if n := len(s.groups); n > 0 && s.groups[n-1].cells < s.merge {
		s.groups[n-1].join(g)
		return
	}
	s.groups = append(s.groups, g)
}

// halve joins each two neighbours.
func (s *Strip) halve() {
	s.merge = 2 * max(s.merge, 1)
	n := 0
	for i, g := range s.groups {
		if i%2 == 0 {
			s.groups[n] = g
			n++
			continue
		}
		s.groups[n-1].join(g)
	}
	clear(s.groups[n:])
	s.groups = s.groups[:n]
}

func (g *group) join(next group) {
	g.cells += next.cells
	g.last = next.last
	for k, size := range next.sizes {
		g.sizes[k] += size
	}
}

// shrink merges groups until the strip has at most n.
func (s *Strip) shrink(n int) {
	for len(s.groups) > n {
		s.halve()
	}
}

// total is the width of all cells.
func (s *Strip) total() (n int64) {
	for _, size := range s.sizes {
		n += size
	}
	return n
}
