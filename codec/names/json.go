package names

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// Limits of what a scanner reads, against lines that are made to hurt.
const (
	maxDepth  = 32
	maxFields = 4096 // of one object
)

// A scanner reads JSON, value by value, from b. The package of the standard library accepts
// "SEQ" for "seq" and the last of two fields with one name. It also builds values that are
// skipped. A scanner does none of that. After the first error it reads nothing more, so its
// callers check err once.
type scanner struct {
	what  string // for errors
	b     []byte
	start int // of b in the whole document
	at    int
	depth int
	err   error
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = codec.Corrupt(s.what, int64(s.start+s.at), format, args...)
	}
}

// peek returns the next byte that is not a space, 0 at the end or after an error.
func (s *scanner) peek() byte {
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

// take passes a byte that must be there.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		s.fail("want %q", c)
		return false
	}
	s.at++
	return true
}

// nest enters an object or array, and leave is to be called behind it.
func (s *scanner) nest(open byte) bool {
	if !s.take(open) {
		return false
	}
	if s.depth++; s.depth > maxDepth {
		s.fail("more than %d levels", maxDepth)
	}
	return s.err == nil
}

// more reports whether another element follows, and passes the comma before it.
func (s *scanner) more(first bool, end byte) bool {
	switch c := s.peek(); {
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

// object reads an object. It calls field behind every name, to read the value. Fields
// in required must be there; none may be there twice.
func (s *scanner) object(required []string, field func(name string)) {
	if !s.nest('{') {
		return
	}
	seen := map[string]bool{}
	for first := true; s.more(first, '}'); first = false {
		name := s.text()
		if seen[name] {
			s.fail("field %.80q occurs twice", name)
		}
		if seen[name] = true; len(seen) > maxFields {
			s.fail("more than %d fields", maxFields)
		}
		if s.take(':') {
			field(name)
		}
	}
	for _, name := range required {
		if s.err == nil && !seen[name] {
			s.fail("no field %q", name)
		}
	}
}

// array reads an array. It calls element before every element, to read it.
func (s *scanner) array(element func(i int)) {
	if !s.nest('[') {
		return
	}
	for i := 0; s.more(i == 0, ']'); i++ {
		element(i)
	}
}

// raw reads a string and returns it with its quotes.
func (s *scanner) raw() (raw []byte, escaped bool) {
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
			s.fail("control character in a string")
			return nil, false
		}
	}
	s.at = len(s.b)
	s.fail("a string has no end")
	return nil, false
}

func (s *scanner) text() string {
	raw, escaped := s.raw()
	switch {
	case s.err != nil:
		return ""
	case !escaped:
		return string(raw[1 : len(raw)-1])
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		s.fail("a string is wrong")
	}
	return text
}

// decimal reads a number in a string: digits without leading zeros, below 2^64.
func (s *scanner) decimal() uint64 {
	at := s.at
	text := s.text()
	v, ok := parseUint(text)
	if s.err == nil && !ok {
		s.at = at
		s.fail("%.40q is not a number in a string", text)
	}
	return v
}

// int63 reads a number in a string that an int64 holds.
func (s *scanner) int63() int64 {
	v := s.decimal()
	if v > math.MaxInt64 {
		s.fail("%d is 2^63 or more", v)
		return 0
	}
	return int64(v)
}

// Time reads nanoseconds since 1970 in a string.
func (s *scanner) time() time.Time { return time.Unix(0, s.int63()).UTC() }

// small reads a whole number from 0 to 2^31 - 1 that is no string.
func (s *scanner) small() int {
	const limit = math.MaxInt32
	token := s.number()
	if s.err != nil {
		return 0
	}
	v, err := strconv.ParseUint(string(token), 10, 64)
	if err != nil || v > limit {
		s.at -= len(token)
		s.fail("%.40s is not a whole number up to %d", token, limit)
		return 0
	}
	return int(v)
}

// number passes a number and returns its text.
func (s *scanner) number() []byte {
	s.peek()
	start := s.at
	for s.err == nil && s.at < len(s.b) && bytes.IndexByte([]byte("+-.0123456789Ee"), s.b[s.at]) >= 0 {
		s.at++
	}
	token := s.b[start:s.at]
	if s.err == nil && (len(token) == 0 || len(token) > 1000 || !json.Valid(token)) {
		s.at = start
		s.fail("not a number")
	}
	return token
}

// null skips null and reports whether it was next.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	s.word("null")
	return s.err == nil
}

func (s *scanner) word(w string) {
	if !bytes.HasPrefix(s.b[s.at:], []byte(w)) {
		s.fail("not a value")
		return
	}
	s.at += len(w)
}

// skip passes any value.
func (s *scanner) skip() {
	switch c := s.peek(); c {
	case '{':
		s.object(nil, func(string) { s.skip() })
	case '[':
		s.array(func(int) { s.skip() })
	case '"':
		if raw, escaped := s.raw(); escaped && !json.Valid(raw) {
			s.fail("a string is wrong")
		}
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
}

// end checks that nothing follows.
func (s *scanner) end() error {
	if s.peek(); s.err == nil && s.at != len(s.b) {
		s.fail("%d bytes behind the end", len(s.b)-s.at)
	}
	return s.err
}

// optional reads a string that may be null.
func (s *scanner) optional() string {
	if s.null() {
		return ""
	}
	return s.text()
}

func (s *scanner) pageHash() page.Hash {
	at := s.at
	h, err := page.ParseHash(s.text())
	if s.err == nil && err != nil {
		s.at = at
		s.fail("%v", err)
	}
	return h
}

func (s *scanner) texts() map[string]string {
	m := map[string]string{}
	s.object(nil, func(name string) { m[name] = s.text() })
	return m
}

// line returns v as JSON without a newline. Nothing in it is spelled so that it could
// stand in a web page, because people read it.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("document: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
