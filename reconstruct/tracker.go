package reconstruct

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A tracker records the chunks of a file that readers got, of a source without proofs. The file
// is checked when they got all of them. The hashes themselves are in the cache, which may forget
// them, so the tracker has a mark for each chunk: 8 bytes. A mark shows that a later copy of a
// chunk is the same as the one that a reader got. It also covers the place in the term, which the
// source computes from sizes that nothing has proven.
type tracker struct {
	pages atomic.Pointer[coverage] // that readers got; nil: none yet, or of a gated or proven file

	mu     sync.Mutex
	marks  []groupMarks // by group; guarded by mu
	groups int          // with chunks that were not read; guarded by mu

	// Changed with mu; reads look at them without it:
	proven atomic.Bool           // the hash of the file matches the marks
	failed atomic.Pointer[error] // it does not
}

// groupMarks are the marks of the chunks of a group.
type groupMarks struct {
	terms [][]uint64 // by term and chunk, zero: not read; nil: none of the term was read
	left  int64      // chunks that were not read
}

// seed makes the marks unpredictable: a server cannot choose chunks with equal ones.
var seed = maphash.MakeSeed()

// mark returns the mark of a chunk that begins at an offset in its term.
func mark(leaf merkle.Leaf, off int64) uint64 {
	var b [48]byte
	copy(b[:], leaf.Hash[:])
	binary.LittleEndian.PutUint64(b[32:], leaf.Size)
	binary.LittleEndian.PutUint64(b[40:], uint64(off))
	return max(1, maphash.Bytes(seed, b[:]))
}

func newTracker(groups int) *tracker {
	return &tracker{marks: make([]groupMarks, groups), groups: groups}
}

// errOtherChunk is the error of a chunk that differs from the one that a reader got before.
var errOtherChunk = codec.Corrupt("chunk", 0, "it is not the same as before")

// note records chunks of a term that were read: those of leaves with a hash. The first one is r.Start,
// and begins off bytes behind the start of the term. If a chunk has another mark already, note
// records nothing more and returns an error.
func (t *tracker) note(g *group, term int, r codec.ChunkRange, off int64, leaves []merkle.Leaf) error {
	all := g.layout.terms[term].Chunks
	if !all.Contains(r) || len(leaves) != r.Len() {
		return codec.Corrupt("term", 0, "chunks %v are not among %v", r, all)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	marks := t.marksLocked(g, term)[r.Start-all.Start:]
	for i, leaf := range leaves {
		if leaf.Hash != (codec.Hash{}) {
			m := mark(leaf, off)
			switch marks[i] {
			case m:
			case 0:
				marks[i] = m
				t.countLocked(g)
			default:
				return &codec.ChunkError{Chunk: int(r.Start) + i, Err: errOtherChunk}
			}
		}
		off += int64(leaf.Size)
	}
	return nil
}

// marksLocked returns the marks of a term.
func (t *tracker) marksLocked(g *group, term int) []uint64 {
	gm := &t.marks[g.index]
	if gm.terms == nil {
		gm.terms = make([][]uint64, len(g.layout.terms))
		for i := range g.layout.terms {
			gm.left += int64(g.layout.terms[i].Chunks.Len())
		}
	}
	if gm.terms[term] == nil {
		gm.terms[term] = make([]uint64, g.layout.terms[term].Chunks.Len())
	}
	return gm.terms[term]
}

// countLocked counts a chunk of a group.
func (t *tracker) countLocked(g *group) {
	gm := &t.marks[g.index]
	if gm.left--; gm.left == 0 {
		t.groups--
	}
}

// isEmpty reports whether no chunk was read.
func (t *tracker) isEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isEmptyLocked()
}

func (t *tracker) isEmptyLocked() bool {
	return !slices.ContainsFunc(t.marks, func(gm groupMarks) bool { return gm.terms != nil })
}

// notePages records n bytes at off that readers got of a file of size bytes. The first call takes the memory:
// many files are opened and not read, and their sizes are claims.
func (t *tracker) notePages(size, off, n int64) {
	if t.pages.Load() == nil {
		t.mu.Lock()
		if t.pages.Load() == nil && !t.isProven() {
			t.pages.Store(newCoverage(size, pageSize, maxPages))
		}
		t.mu.Unlock()
	}
	t.pages.Load().note(off, n)
}

// complete reports whether readers got the whole file, which is not checked yet. Readers may get all
// bytes without some chunks. A wrong chunk that is too long hides the next one, and a plain file has all
// bytes. Bytes of the plain file alone need no check.
func (t *tracker) complete() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	isWhole := t.groups == 0 || t.pages.Load().isComplete() && !t.isEmptyLocked()
	return isWhole && !t.isProven() && t.err() == nil
}

// prove ends the check of a file with success, unless it has failed before. All chunks have marks then.
func (t *tracker) prove() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.err()
	if err == nil && t.groups > 0 {
		err = errUnknownHash
	}
	if err == nil {
		t.proven.Store(true)
		t.pages.Store(nil)
	}
	return err
}

// fail ends the use of a file with an error for all readers. It returns false if it was called
// before, or if the file is proven: a wrong copy of a chunk has another mark.
func (t *tracker) fail(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err() != nil || t.isProven() {
		return false
	}
	t.failed.Store(&err)
	return true
}

// failUnread is fail for a file of which no chunk was read.
func (t *tracker) failUnread(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err() != nil || t.isProven() || !t.isEmptyLocked() {
		return false
	}
	t.failed.Store(&err)
	return true
}

// err returns the error of all readers, or nil.
func (t *tracker) err() error {
	if err := t.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (t *tracker) isProven() bool { return t.proven.Load() }
