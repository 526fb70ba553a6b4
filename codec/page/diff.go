package page

import (
	"bytes"
	"context"
	"fmt"
	"iter"
)

// A Getter fetches pages by hash. It has checked its results with DecodeAs or an equal method.
// It is safe for concurrent use.
type Getter interface {
	Page(ctx context.Context, h Hash) (*Page, error)
}

// A Change is an entry that differs between two trees. Both have the same path.
type Change struct{ Old, New *Entry } // nil: absent

// A Root is the root page of a tree. The zero Root is an empty tree.
type Root struct {
	Page     Hash
	Identity Identity

	// Pinned says that Identity proves the tree, and that the hashes of pages are addresses only.
	// Each page is then compared with the identity that the link to it has.
	Pinned bool
}

// Diff yields the entries that differ between two trees, in the order of their keys. An entry
// that has only another place in the store does not differ. Diff reads no page whose identity
// both trees have in the same place, so its cost depends on the difference. Diff ends after an
// error, which has an empty Change.
func Diff(ctx context.Context, g Getter, a, b Root) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if a.Identity == b.Identity {
			return
		}
		d := diff{a: side{ctx: ctx, g: g, pinned: a.Pinned}, b: side{ctx: ctx, g: g, pinned: b.Pinned}, yield: yield}
		err := d.a.open(a)
		if err == nil {
			err = d.b.open(b)
		}
		for more := true; more && err == nil; {
			more, err = d.step()
		}
		if err != nil {
			yield(Change{}, err)
		}
	}
}

// A diff walks two trees side by side.
type diff struct {
	a, b  side
	yield func(Change, error) bool
}

// step does the next thing, and reports whether there is more to do. Either it passes
// pages that are in both trees, or it enters a page, or it compares two entries.
func (d *diff) step() (more bool, err error) {
	a, b := &d.a, &d.b
	switch {
	case a.done() && b.done():
		return false, nil
	case a.atLink() && b.isBefore(a.linked()):
		b.passPage(a.linked())
		a.pass()
	case b.atLink() && a.isBefore(b.linked()):
		a.passPage(b.linked())
		b.pass()
	case a.atLink() && b.atLink():
		la, lb := a.level(), b.level()
		if la >= lb {
			err = a.enter()
		}
		if lb >= la && err == nil {
			err = b.enter()
		}
	case a.atLink():
		return d.beside(a, b, func(e *Entry) Change { return Change{New: e} })
	case b.atLink():
		return d.beside(b, a, func(e *Entry) Change { return Change{Old: e} })
	default:
		return d.compare(), nil
	}
	return true, err
}

// beside makes the next step if one side is before a page and the other one before an entry or
// at its end. It does not enter a page that cannot have the entry.
func (d *diff) beside(page, entry *side, change func(*Entry) Change) (more bool, err error) {
	if !entry.done() && page.passed && bytes.Compare(entry.key(), page.last) <= 0 {
		e := entry.take()
		return d.yield(change(&e), nil), nil
	}
	return true, page.enter()
}

// compare compares the entries on which both sides stand; one side may be at its end.
func (d *diff) compare() (more bool) {
	a, b := &d.a, &d.b
	order := 0
	switch {
	case b.done():
		order = -1
	case a.done():
		order = 1
	default:
		order = bytes.Compare(a.key(), b.key())
	}
	var c Change
	if order <= 0 {
		e := a.take()
		c.Old = &e
	}
	if order >= 0 {
		e := b.take()
		c.New = &e
	}
	if order == 0 && c.Old.EqualContent(c.New) {
		return true
	}
	return d.yield(c, nil)
}

// A side is a place in a tree: before an entry, before a page that has not been
// entered, or at the end.
type side struct {
	ctx    context.Context
	g      Getter
	pinned bool    // Root.Pinned
	stack  []frame // from the root down; none has passed its last row
	passed bool
	last   []byte // last key that was passed
}

// A frame is an entered page and its current row.
type frame struct {
	identity Identity
	cursor
}

func (s *side) open(root Root) error {
	if root.Page.IsZero() {
		return nil
	}
	p, err := s.g.Page(s.ctx, root.Page)
	if err == nil && s.pinned {
		err = p.CheckIdentity(root.Identity)
	}
	if err != nil {
		return fmt.Errorf("page %v: %w", root.Page, err)
	}
	if p.rows > 0 {
		s.stack = append(s.stack, frame{root.Identity, p.at(0)})
	}
	return nil
}

func (s *side) done() bool   { return len(s.stack) == 0 }
func (s *side) top() *frame  { return &s.stack[len(s.stack)-1] }
func (s *side) level() int   { return s.top().p.level }
func (s *side) atLink() bool { return !s.done() && s.level() > 0 }
func (s *side) key() []byte  { return s.top().key }

// linked returns the identity of the page of the current link of s.
func (s *side) linked() Identity { return identityIn(s.top().value) }

// enter enters the page of the current link of s.
func (s *side) enter() error {
	parent, id := s.top(), s.linked()
	h := Hash(parent.value)
	p, err := s.g.Page(s.ctx, h)
	switch {
	case err == nil && s.pinned:
		err = parent.p.ProveChild(parent.row, p)
	case err == nil:
		err = parent.p.CheckChild(parent.row, p)
	}
	if err != nil {
		return fmt.Errorf("page %v: %w", h, err)
	}
	s.stack = append(s.stack, frame{id, p.at(0)})
	return nil
}

// pass moves s behind its current entry or page.
func (s *side) pass() {
	s.last, s.passed = append(s.last[:0], s.key()...), true
	for !s.done() {
		if s.top().next(); s.top().row < s.top().p.rows {
			return
		}
		s.stack = s.stack[:len(s.stack)-1]
	}
}

// take returns the current entry of s, and passes it.
func (s *side) take() Entry {
	e := s.top().entry()
	s.pass()
	return e
}

// isBefore reports whether a whole page with the identity id comes next. Either the current link
// has it, or s has entered such a page and passed no row.
func (s *side) isBefore(id Identity) bool {
	if s.atLink() && s.linked() == id {
		return true
	}
	for i := len(s.stack) - 1; i >= 0 && s.stack[i].row == 0; i-- {
		if s.stack[i].identity == id {
			return true
		}
	}
	return false
}

// passPage passes the whole page of an identity for which isBefore is true.
func (s *side) passPage(id Identity) {
	if s.atLink() && s.linked() == id {
		s.pass()
		return
	}
	for s.top().identity != id {
		s.stack = s.stack[:len(s.stack)-1]
	}
	p := s.top().p
	s.stack = s.stack[:len(s.stack)-1]
	if s.done() {
		s.last, s.passed = append(s.last[:0], p.last...), true
		return
	}
	s.pass() // the link to it, whose key is the same
}
