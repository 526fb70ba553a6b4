package pack

// A fragmentation limits how scattered a file becomes. It has the lengths of the last terms, in
// chunks.
type fragmentation struct {
	lengths []int // a ring of the last maxLengths
	next    int   // of lengths, when it is full
	sum     int
	strict  bool // matches were refused lately: until the average is highChunks
}

// reset forgets everything: another file begins.
func (f *fragmentation) reset() { *f = fragmentation{lengths: f.lengths[:0]} }

// The numbers of the reference.
const (
	maxLengths = 128
	lowChunks  = 4
	highChunks = 8
)

// add notes a new term.
func (f *fragmentation) add(chunks int) {
	f.sum += chunks
	if len(f.lengths) < maxLengths {
		f.lengths = append(f.lengths, chunks)
		return
	}
	f.sum -= f.lengths[f.next]
	f.lengths[f.next] = chunks
	f.next = (f.next + 1) % maxLengths
}

// extend notes that the last term grew.
func (f *fragmentation) extend(chunks int) {
	if len(f.lengths) == 0 {
		return
	}
	last := len(f.lengths) - 1
	if len(f.lengths) == maxLengths {
		last = (f.next + maxLengths - 1) % maxLengths
	}
	f.lengths[last] += chunks
	f.sum += chunks
}

// allows reports whether a new term of stored chunks may be used instead of storing the chunks
// again.
func (f *fragmentation) allows(chunks int) bool {
	if len(f.lengths) < maxLengths {
		return true
	}
	average := float32(f.sum) / maxLengths
	least := float32(lowChunks)
	if f.strict {
		least = highChunks
	}
	if average >= least {
		f.strict = false
		return true
	}
	if float32(chunks) < average {
		f.strict = true
		return false
	}
	return true
}
