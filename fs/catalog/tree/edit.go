package tree

import (
	"fmt"

	"github.com/xetfs/xetfs/codec/page"
)

// An editor changes one level of a tree. It copies the rows of the old pages, omits some,
// inserts others, and cuts new pages from the result.
//
// An editor works on stretches of old pages. A stretch begins with a page that contains a
// change. It ends where old and new pages end with the same row, if the next change is
// behind the next old page. The old pages from there on equal the new ones. One level up,
// a stretch is a change again: the links to its old pages are replaced by those to its new
// pages.
type editor struct {
	u    *updater
	n    int // the level
	top  bool
	old  walk
	page *page.Page // the old page in front of the walk, once it is needed
	row  int        // of page, the next to go by
	out  *page.Level

	open   bool      // in a stretch
	kept   bool      // there is an old page that is in no stretch
	passed *string   // last key of the last passed old page
	adding string    // key of the row that was put into out last
	same   page.Hash // of the old page that ends with the last key in out
	link   page.Link // that went to out last
	made   int       // new pages
	newest page.Link
}

func newEditor(u *updater, level int) (*editor, error) {
	old, err := newWalk(u.ctx, u.source, u.root, level)
	if err != nil {
		return nil, err
	}
	e := &editor{u: u, n: level, old: old, top: old.top.Level() <= level}
	e.out = page.NewLevel(u.sizes, level, e.finished)
	return e, nil
}

// begin moves to the place of a change. All old rows below key are passed: copied to new pages or
// left unchanged.
func (e *editor) begin(key string) error {
	for {
		var err error
		switch {
		case !e.open:
			err = e.openAt(key)
		case e.old.end:
			return nil
		case e.page != nil:
			if err = e.feed(e.page.Seek(key)); err == nil && e.row < e.page.Len() {
				return nil
			}
			if err == nil {
				err = e.leave()
			}
		case e.out.Open() == 0 && !e.old.isLast() && e.old.last() < key:
			err = e.close()
		default:
			err = e.enter()
		}
		if err != nil {
			return err
		}
	}
}

// openAt begins a stretch with the old page where key belongs.
func (e *editor) openAt(key string) error {
	e.open = true
	if e.old.end {
		return nil
	}
	if _, err := e.old.seek(e.u.ctx, key); err != nil {
		return err
	}
	e.kept = e.kept || !e.old.isFirst()
	if e.top {
		return nil
	}
	up, err := e.u.level(e.n + 1)
	if err != nil {
		return err
	}
	return up.begin(e.old.last())
}

// close ends a stretch.
func (e *editor) close() error {
	e.open = false
	e.kept = e.kept || !e.old.end
	return e.dropAbove()
}

// dropAbove removes the links to the passed old pages from the level above.
func (e *editor) dropAbove() error {
	if e.top || e.passed == nil {
		return nil
	}
	up, err := e.u.level(e.n + 1)
	if err != nil {
		return err
	}
	return up.drop(*e.passed)
}

func (e *editor) enter() (err error) {
	e.row = 0
	e.page, err = e.old.fetcher()(e.u.ctx)
	return err
}

// leave goes behind an old page.
func (e *editor) leave() error {
	last := e.old.last()
	if last == e.adding {
		e.same = e.old.hash()
	}
	e.page, e.passed = nil, &last
	return e.old.next(e.u.ctx)
}

// feed copies rows of the old page, up to one.
func (e *editor) feed(to int) error {
	if e.row >= to {
		return nil
	}
	if to == e.page.Len() {
		e.same = e.old.hash()
	}
	from := e.row
	e.row = to
	if e.n == 0 {
		for entry := range e.page.EntriesFrom(from) {
			if err := e.out.AddEntry(&entry); err != nil {
				return err
			}
			if from++; from == to {
				break
			}
		}
		return nil
	}
	for e.link = range e.page.LinksFrom(from) {
		if err := e.out.AddLink(e.link); err != nil {
			return err
		}
		if from++; from == to {
			break
		}
	}
	return nil
}

// drop leaves out the old rows up to key. Whole pages of them are not looked at.
func (e *editor) drop(key string) error {
	if e.passed != nil && key <= *e.passed {
		return nil
	}
	for !e.old.end {
		switch {
		case e.page == nil && e.old.last() > key:
			if err := e.enter(); err != nil {
				return err
			}
		case e.page != nil:
			row, exact := e.page.Find(key)
			if exact {
				row++
			}
			if e.row = max(e.row, row); e.row < e.page.Len() {
				return nil
			}
			fallthrough
		default:
			if err := e.leave(); err != nil {
				return err
			}
		}
	}
	return nil
}

// addEntry adds a new entry to a level of leaves, behind begin.
func (e *editor) addEntry(key string, entry *page.Entry) error {
	e.meet(key)
	return e.out.AddEntry(entry)
}

// addLink adds the link to a new page to a level above, behind begin.
func (e *editor) addLink(l page.Link) error {
	e.open = true // where the old tree has no such level, nothing was before
	e.meet(l.Last)
	e.link = l
	return e.out.AddLink(l)
}

// meet says that a row with this key is put into out. If an old page ends with that key,
// and the new page that ends there is the same, it is not new.
func (e *editor) meet(key string) {
	e.adding = key
	if !e.old.end && e.old.last() == key {
		e.same = e.old.hash()
	}
}

// finished takes a page from out.
func (e *editor) finished(l page.Link, b []byte) error {
	e.made++
	e.newest = l
	if l.Page != e.same {
		if err := e.u.put(l.Page, b); err != nil {
			return err
		}
	}
	if e.n == page.MaxLevel {
		if e.made > 1 || e.kept {
			return fmt.Errorf("pages: a tree of more than %d levels", page.MaxLevel+1)
		}
		return nil
	}
	up, err := e.u.level(e.n + 1)
	if err != nil {
		return err
	}
	up.meet(l.Last)
	if err := e.dropAbove(); err != nil {
		return err
	}
	return up.addLink(l)
}

// settle lets old rows go by until the last stretch is over, or there are no more.
func (e *editor) settle() error {
	for e.open && !e.old.end {
		var err error
		switch {
		case e.page != nil:
			if err = e.feed(e.page.Len()); err == nil {
				err = e.leave()
			}
		case e.out.Open() == 0:
			err = e.close()
		default:
			err = e.enter()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end finishes the level behind settle.
func (e *editor) end() error {
	if err := e.out.End(); err != nil || !e.open {
		return err
	}
	return e.close()
}
