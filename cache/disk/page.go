package disk

import (
	"errors"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/codec"
)

// Page returns the index page with hash h, also one that waits for the disk. The caller must not change
// it.
func (s *Store) Page(h [32]byte) ([]byte, bool) {
	k := index.PageKey(h)
	if p, ok := s.pages.Load(k); ok {
		return p.(*putOp).data, true
	}
	b, n := s.read(k, onePage, RunOptions{Buffer: newBytes})
	s.count(n, 1)
	return b, n == 1
}

var onePage = codec.ChunkRange{Start: 0, End: 1}

// PutPage stores an index page. It copies b and does not wait. Its errors are those of
// PutRunNoCopy.
func (s *Store) PutPage(h [32]byte, b []byte) error {
	if err := s.WriteErr(); err != nil {
		return err
	}
	k := index.PageKey(h)
	if len(b) == 0 || s.disk.Load().index.Has(k) {
		return nil
	}
	p := &putOp{
		key:   k,
		data:  append([]byte(nil), b...),
		infos: []index.ChunkInfo{{Size: len(b), Uses: index.MaxUses, CRC: index.Checksum(index.Seed(k), 0, b)}},
	}
	if _, isQueued := s.pages.LoadOrStore(k, p); isQueued {
		return nil
	}
	p.release = func() { s.pages.CompareAndDelete(k, p) }
	err := s.put(p, s.writer.Load().tryPutPage)
	if err != nil {
		p.release()
	}
	return err
}

// DropPage forgets a page that does not match its hash.
func (s *Store) DropPage(h [32]byte) {
	k := index.PageKey(h)
	s.pages.Delete(k)
	if s.drop(k, onePage) > 0 {
		s.dropped(describe(k, onePage), errors.New("not what its hash says"))
	}
}

// ForgetPage is DropPage for an intact page that is of no use any more. It causes no event.
func (s *Store) ForgetPage(h [32]byte) {
	k := index.PageKey(h)
	s.pages.Delete(k)
	s.drop(k, onePage)
}
