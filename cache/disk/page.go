package disk

import (
	"errors"

	"github.com/xetfs/xetfs/codec"
)

// Page returns the index page of that hash.
func (s *Store) Page(h [32]byte) ([]byte, bool) {
	b, n := s.read(key{pageKind, h}, onePage, RunOptions{Buffer: newBytes})
	s.count(n, 1)
	return b, n == 1
}

var onePage = codec.ChunkRange{Start: 0, End: 1}

// PutPage stores an index page. It copies b and does not wait, and its errors are those
// of PutRun.
func (s *Store) PutPage(h [32]byte, b []byte) error {
	if err := s.WriteErr(); err != nil {
		return err
	}
	k := key{pageKind, h}
	if len(b) == 0 || s.has(k) {
		return nil
	}
	return s.put(&putOp{
		key:    k,
		data:   append([]byte(nil), b...),
		pieces: []chunkInfo{{size: len(b), crc: checksum(seed(k), 0, b)}},
	}, s.writer.Load().tryPut)
}

func (s *Store) has(k key) bool {
	index := s.disk.Load().index
	index.mu.RLock()
	defer index.mu.RUnlock()
	_, ok := index.ids[k]
	return ok
}

// DropPage forgets a page, because its bytes are not what its hash says.
func (s *Store) DropPage(h [32]byte) {
	k := key{pageKind, h}
	if s.drop(k, onePage) > 0 {
		s.dropped(describe(k, onePage), errors.New("not what its hash says"))
	}
}

// ForgetPage is DropPage of a page that is what it was when it was put, and of no use any
// more: nobody is told.
func (s *Store) ForgetPage(h [32]byte) { s.drop(key{pageKind, h}, onePage) }
