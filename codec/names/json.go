package names

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/strictjson"
)

// A scanner reads JSON with the values of this package.
type scanner struct{ strictjson.Scanner }

func newScanner(what string, b []byte, start int) scanner {
	return scanner{strictjson.New(what, b, start)}
}

// decimal reads a number in a string: digits without leading zeros, below 2^64.
func (s *scanner) decimal() uint64 {
	at := s.At()
	text := s.Text()
	v, ok := parseUint(text)
	if !ok {
		s.FailAt(at, "%.40q is not a number in a string", text)
	}
	return v
}

// int63 reads a number in a string that an int64 holds.
func (s *scanner) int63() int64 {
	v := s.decimal()
	if v > math.MaxInt64 {
		s.Fail("%d is 2^63 or more", v)
		return 0
	}
	return int64(v)
}

// Time reads nanoseconds since 1970 in a string.
func (s *scanner) time() time.Time { return time.Unix(0, s.int63()).UTC() }

// small reads a whole number from 0 to 2^31 - 1 that is no string.
func (s *scanner) small() int { return int(s.Uint(math.MaxInt32)) }

// optional reads a string that may be null.
func (s *scanner) optional() string {
	if s.Null() {
		return ""
	}
	return s.Text()
}

func (s *scanner) pageHash() page.Hash {
	at := s.At()
	h, err := page.ParseHash(s.Text())
	if err != nil {
		s.FailAt(at, "%v", err)
	}
	return h
}

func (s *scanner) texts() map[string]string {
	m := map[string]string{}
	s.Object(nil, func(name string) { m[name] = s.Text() })
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
