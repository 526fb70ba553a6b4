package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
)

// delete deletes a file. After an error the bytes still count, and each new journal tries the
// deletion again. Each error counts as a failure of the disk, also a lack of room or quota. Eviction
// would otherwise forget all entries of a full disk that deletes nothing.
func (wr *writer) delete(o orphan) {
	err := wr.d.Remove(o.name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		wr.failed("deleting", errors.New(err.Error()))
		wr.stuck = append(wr.stuck, o)
	case o.file != nil:
		o.file.Unlinked = true
		wr.uncount(o.file)
	default:
		wr.s.stats.use(-o.size, o.sort)
	}
}

// uncount frees the bytes of a deleted file after its last handle is closed.
func (wr *writer) uncount(w *index.WholeFile) {
	if w.Unlinked && !w.Uncounted && w.Open.Load() == 0 {
		w.Uncounted = true
		wr.s.stats.use(-index.OnDisk(w.Size), &wr.s.stats.fileBytes)
	}
}

// deleteStuck tries again to delete one file. A few files that can never be deleted must
// not look like a failing disk.
func (wr *writer) deleteStuck() {
	if len(wr.stuck) > 0 {
		o := wr.stuck[0]
		wr.stuck = wr.stuck[1:]
		wr.delete(o)
	}
}

// isLeaving reports whether a file is to be deleted already.
func (wr *writer) isLeaving(name string) bool {
	named := func(o orphan) bool { return o.name == name }
	return slices.ContainsFunc(wr.orphans, named) || slices.ContainsFunc(wr.stuck, named)
}

// deleteOrphan deletes one orphan and reports whether more are left.
func (wr *writer) deleteOrphan() bool {
	n := len(wr.orphans)
	if n == 0 {
		return false
	}
	o := wr.orphans[n-1]
	wr.orphans = wr.orphans[:n-1]
	wr.delete(o)
	return n > 1
}

// deleteNamed deletes the orphans with one of these names, because new files get the names. It
// returns an error if a deletion fails: a later deletion would hit the new file.
func (wr *writer) deleteNamed(names ...string) error {
	named := func(o orphan) bool { return slices.Contains(names, o.name) }
	all := slices.Concat(wr.orphans, wr.stuck)
	wr.orphans, wr.stuck = slices.DeleteFunc(wr.orphans, named), slices.DeleteFunc(wr.stuck, named)
	for _, o := range all {
		if named(o) {
			wr.delete(o)
		}
	}
	for _, name := range names {
		if wr.isLeaving(name) {
			return fmt.Errorf("%s cannot be deleted", name)
		}
	}
	return nil
}
