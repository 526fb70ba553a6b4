package journal

// A Tail is the class of the bytes behind the last good record. It decides what a caller may do with
// the journal.
type Tail uint8

const (
	Clean       Tail = iota // nothing, or the trailer of a block: append here
	Zero                    // space never written: truncate, then append
	Torn                    // a record cut short: truncate, then append
	Damaged                 // good records behind bad bytes: keep a copy, start anew
	Unsupported             // a newer writer was here: do not touch
)

var tailNames = [...]string{"clean", "zero", "torn", "damaged", "unsupported"}

// String returns "clean", "zero", "torn", "damaged" or "unsupported".
func (t Tail) String() string {
	if int(t) < len(tailNames) {
		return tailNames[t]
	}
	return "unknown"
}

// tailBehind classes what follows the good part. more reports that a complete record
// follows it. Otherwise the scanner is at the end of the journal.
func (r *Reader) tailBehind(more bool) Tail {
	size := r.scan.base + int64(r.scan.n)
	switch {
	case r.trouble == BadType:
		return Unsupported
	case more:
		return Damaged
	case r.scan.nonzero > r.end:
		return Torn
	case size-r.end <= trailerAt(r.end):
		return Clean
	}
	return Zero
}

// trailerAt returns how many bytes a writer that is at off must leave unused before
// the next header.
func trailerAt(off int64) int64 {
	if room := blockSize - off%blockSize; room < headerSize {
		return room
	}
	return 0
}
