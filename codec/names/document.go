package names

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/zeebo/blake3"

	"github.com/xetfs/xetfs/codec"
)

// Limits of encoded documents in bytes. A reader asks a store for no more.
const (
	MaxDocument     = 4 << 20
	MaxVersion      = 16 << 20 // a repack lists all live versions of a symbol, with their signatures
	MaxLongDocument = 64 << 20 // Snapshot, Sweep, symbol list, sweep list
)

// format is the only format of documents that is known here.
const format = 2

// ErrOlder says that a document has the format of an older xetfs. It is not damaged.
var ErrOlder = errors.New("made by an older xetfs, whose stores are no longer read; publish the folders anew into an empty store")

// ErrNewer says that a document has a format from the future. It is not damaged, and it
// must not be replaced.
var ErrNewer = errors.New("made by a newer xetfs")

// A SizeError reports a document that is larger than its limit.
type SizeError struct {
	what        string
	size, limit int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s: %d bytes, at most %d are allowed", e.what, e.size, e.limit)
}

// A Document is a *Ref, *Version, *Snapshot, *Settings or *Sweep.
type Document interface {
	// what is the word for it in errors, and limit the most bytes it may have.
	what() string
	limit() int

	// check says what is wrong with the content, if anything is.
	check() error

	// wire returns what encoding/json makes the right line of.
	wire() any

	// read reads the line.
	read(s *scanner)
}

// Encode returns the bytes of a document: the line and its checksum. A document that
// Decode would refuse is refused.
func Encode(doc Document) ([]byte, error) {
	if err := doc.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", doc.what(), err)
	}
	text, err := line(doc.wire())
	if err != nil {
		return nil, err
	}
	b := seal(text)
	if len(b) > doc.limit() {
		return nil, &SizeError{what: doc.what(), size: len(b), limit: doc.limit()}
	}
	return b, nil
}

// Decode reads a document, the checksum first. Errors are ErrNewer, ErrOlder or
// codec.ErrCorrupt; after one, doc means nothing.
func Decode(b []byte, doc Document) error {
	what := doc.what()
	text, err := open(what, b, doc.limit())
	if err != nil {
		return err
	}
	if bytes.IndexByte(text, '\n') >= 0 {
		return codec.Corrupt(what, int64(bytes.IndexByte(text, '\n')), "more than one line before the checksum")
	}
	if !bytes.HasPrefix(text, beginning) {
		if err := checkFormat(what, text); err != nil {
			return err
		}
	}
	s := newScanner(what, text, 0)
	doc.read(&s)
	if err := s.End(); err != nil {
		return err
	}
	if err := doc.check(); err != nil {
		return codec.Corrupt(what, 0, "%v", err)
	}
	return nil
}

// beginning is that of each document which Encode made.
var beginning = fmt.Appendf(nil, `{"format":%d,`, format)

// checkFormat scans the whole line once, so that a document of another format is reported as
// such whatever else it has.
func checkFormat(what string, text []byte) error {
	s := newScanner(what, text, 0)
	known := 0
	s.Object([]string{"format"}, func(name string) {
		if name == "format" {
			known = s.small()
			return
		}
		s.Skip()
	})
	switch err := s.End(); {
	case err != nil:
		return err
	case known > format:
		return fmt.Errorf("%s of format %d: %w", what, known, ErrNewer)
	case known == 1:
		return fmt.Errorf("%s of format %d: %w", what, known, ErrOlder)
	case known < format:
		return codec.Corrupt(what, 0, "format %d is not known", known)
	}
	return nil
}

const sumSize = 64 // digits of a checksum

// seal puts the checksum behind lines, the last of which has no newline yet.
func seal(text []byte) []byte {
	sum := blake3.Sum256(text)
	b := slices.Grow(text, sumSize+2)
	if len(text) > 0 {
		b = append(b, '\n')
	}
	b = hex.AppendEncode(b, sum[:])
	return append(b, '\n')
}

// open is the inverse of seal.
func open(what string, b []byte, limit int) ([]byte, error) {
	size := int64(len(b))
	if len(b) > limit {
		return nil, codec.Corrupt(what, int64(limit), "%d bytes, at most %d are allowed", len(b), limit)
	}
	start := len(b) - sumSize - 1
	if start < 0 || start == 1 || b[len(b)-1] != '\n' || start > 0 && b[start-1] != '\n' {
		return nil, codec.Corrupt(what, size, "no line with a checksum at the end")
	}
	text := b[:max(start-1, 0)]
	sum := blake3.Sum256(text)
	if want := hex.EncodeToString(sum[:]); string(b[start:len(b)-1]) != want {
		return nil, codec.Corrupt(what, int64(start), "checksum %.64q, want %s", b[start:len(b)-1], want)
	}
	if !utf8.Valid(text) {
		return nil, codec.Corrupt(what, 0, "not UTF-8")
	}
	return text, nil
}

// CheckValue compares a value with the hash in the key of an atom. Atoms are versions, index
// pages, symbol entries and lists, and sweep lists. Shards and xorbs have other hashes and are
// not accepted. The error is a codec.ErrCorrupt.
func CheckValue(k Key, value []byte) error {
	p, err := ParseKey(k)
	if err != nil {
		return err
	}
	switch p.Kind {
	case VersionKind, PageKind, SymbolKind, SymbolListKind, SweepListKind:
	default:
		return fmt.Errorf("key %q: the hash of a %v is not in its key", k, p.Kind)
	}
	if got := blake3.Sum256(value); got != p.Hash {
		return codec.Corrupt(p.Kind.String(), 0, "its hash is %x, want %x", got, p.Hash)
	}
	return nil
}

// checkTime checks that a time can be written: from 1970 to 2262.
func checkTime(what string, t time.Time) error {
	if n := t.UnixNano(); n < 0 || !time.Unix(0, n).Equal(t) {
		return fmt.Errorf("%s is %v, which is before 1970 or after 2262", what, t)
	}
	return nil
}

// checkID checks 32 random hex digits.
func checkID(what, id string) error {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != 16 || hex.EncodeToString(raw) != id {
		return fmt.Errorf("%s %.80q: want 32 lower-case hex digits", what, id)
	}
	return nil
}

// checkText checks free text, which JSON can hold only if it is UTF-8.
func checkText(what, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s %.80q is not UTF-8", what, text)
	}
	return nil
}
