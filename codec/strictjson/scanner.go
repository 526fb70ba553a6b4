package strictjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/xetfs/xetfs/codec"
)

// Limits of nesting and of fields, against hostile documents.
const (
	maxDepth  = 32
	MaxFields = 4096 // of one object, unless Scanner.MaxFields is set
)

// A Scanner reads JSON, value by value. Unlike the package of the standard library, it refuses
// "SEQ" for "seq" and two fields with one name. It builds no values that are skipped. After the
// first error it reads nothing more, so callers check the error once.
type Scanner struct {
	MaxFields int // of one object; 0: 4096

	what  string // for errors
	b     []byte
	start int // of b in the whole document
	at    int
	depth int
	err   error
}

// New returns a Scanner of b, which starts at an offset of a document. what is the kind of the
// document in errors, which are codec.ErrCorrupt.
func New(what string, b []byte, start int) Scanner {
	return Scanner{what: what, b: b, start: start}
}

// Err returns the first error.
func (s *Scanner) Err() error { return s.err }

// At returns the offset of the next byte in b, for FailAt.
func (s *Scanner) At() int { return s.at }

// Fail records an error at the next byte, unless there is one already.
func (s *Scanner) Fail(format string, args ...any) { s.FailAt(s.at, format, args...) }

// FailAt is Fail for a byte of b.
func (s *Scanner) FailAt(at int, format string, args ...any) {
	if s.err == nil {
		s.at = at
		s.err = codec.Corrupt(s.what, int64(s.start+at), format, args...)
	}
}

// Peek returns the next byte that is not a space, 0 at the end or after an error.
func (s *Scanner) Peek() byte {
	if s.err != nil {
		return 0
	}
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take passes a byte, and fails if the next one differs.
func (s *Scanner) take(c byte) bool {
	if s.Peek() != c {
		s.Fail("want %q", c)
		return false
	}
	s.at++
	return true
}

// nest enters an object or array, and leave is to be called behind it.
func (s *Scanner) nest(open byte) bool {
	if !s.take(open) {
		return false
	}
	if s.depth++; s.depth > maxDepth {
		s.Fail("more than %d levels", maxDepth)
	}
	return s.err == nil
}

// more reports whether another element follows, and passes the comma before it.
func (s *Scanner) more(first bool, end byte) bool {
	switch c := s.Peek(); {
	case s.err != nil:
		return false
	case c == end:
		s.at++
		s.depth--
		return false
	case first:
		return true
	}
	return s.take(',')
}

// Object reads an object. It calls field after each name, and field reads the value. The names
// in required must occur, and no name may occur twice.
func (s *Scanner) Object(required []string, field func(name string)) {
	if !s.nest('{') {
		return
	}
	var seen names
	most := s.MaxFields
	if most == 0 {
		most = MaxFields
	}
	for first := true; s.more(first, '}'); first = false {
		name := s.Text()
		if seen.has(name) {
			s.Fail("field %.80q occurs twice", name)
		}
		if seen.add(name); seen.len() > most {
			s.Fail("more than %d fields", most)
		}
		if s.take(':') {
			field(name)
		}
	}
	for _, name := range required {
		if s.err == nil && !seen.has(name) {
			s.Fail("no field %q", name)
		}
	}
}

// names is a set of names. Most objects have few fields, and need no map.
type names struct {
	few  [8]string
	used int // of few
	many map[string]bool
}

func (n *names) has(name string) bool { return n.many[name] || slices.Contains(n.few[:n.used], name) }

func (n *names) add(name string) {
	if n.used < len(n.few) {
		n.few[n.used] = name
		n.used++
		return
	}
	if n.many == nil {
		n.many = map[string]bool{}
	}
	n.many[name] = true
}

func (n *names) len() int { return n.used + len(n.many) }

// Array reads an array. It calls element for each element, and element reads it.
func (s *Scanner) Array(element func(i int)) {
	if !s.nest('[') {
		return
	}
	for i := 0; s.more(i == 0, ']'); i++ {
		element(i)
	}
}

// raw reads a string and returns it with its quotes.
func (s *Scanner) raw() (raw []byte, escaped bool) {
	if !s.take('"') {
		return nil, false
	}
	start := s.at - 1
	for ; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			return s.b[start:s.at], escaped
		case c == '\\':
			escaped = true
			s.at++
		case c < ' ':
			s.Fail("control character in a string")
			return nil, false
		}
	}
	s.at = len(s.b)
	s.Fail("a string has no end")
	return nil, false
}

// Text reads a string.
func (s *Scanner) Text() string {
	raw, escaped := s.raw()
	switch {
	case s.err != nil:
		return ""
	case !escaped:
		return string(raw[1 : len(raw)-1])
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		s.Fail("a string is wrong")
	}
	return text
}

// Uint reads a whole number from 0 to most, without an exponent.
func (s *Scanner) Uint(most uint64) uint64 {
	token := s.Number()
	if s.err != nil {
		return 0
	}
	v, err := strconv.ParseUint(string(token), 10, 64)
	if err != nil || v > most {
		s.FailAt(s.at-len(token), "%.40s is not a whole number up to %d", token, most)
		return 0
	}
	return v
}

// Number passes a number and returns its text.
func (s *Scanner) Number() []byte {
	s.Peek()
	start := s.at
	for s.err == nil && s.at < len(s.b) && bytes.IndexByte([]byte("+-.0123456789Ee"), s.b[s.at]) >= 0 {
		s.at++
	}
	token := s.b[start:s.at]
	if s.err == nil && (len(token) == 0 || len(token) > 1000 || !json.Valid(token)) {
		s.at = start
		s.Fail("not a number")
	}
	return token
}

// Null skips null and reports whether it was next.
func (s *Scanner) Null() bool {
	if s.Peek() != 'n' {
		return false
	}
	s.word("null")
	return s.err == nil
}

func (s *Scanner) word(w string) {
	if !bytes.HasPrefix(s.b[s.at:], []byte(w)) {
		s.Fail("not a value")
		return
	}
	s.at += len(w)
}

// Skip passes any value.
func (s *Scanner) Skip() {
	switch c := s.Peek(); c {
	case '{':
		s.Object(nil, func(string) { s.Skip() })
	case '[':
		s.Array(func(int) { s.Skip() })
	case '"':
		if raw, escaped := s.raw(); escaped && !json.Valid(raw) {
			s.Fail("a string is wrong")
		}
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.Number()
	}
}

// End returns the first error. Further bytes are an error, too.
func (s *Scanner) End() error {
	if s.Peek(); s.err == nil && s.at != len(s.b) {
		s.Fail("%d bytes behind the end", len(s.b)-s.at)
	}
	return s.err
}
