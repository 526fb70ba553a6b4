package names

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Is reports whether b looks like a document or a list of symbols or keys: it ends with a
// line of 64 hex digits.
func Is(b []byte) bool {
	start := len(b) - sumSize - 1
	if start < 0 || b[len(b)-1] != '\n' || start > 0 && b[start-1] != '\n' {
		return false
	}
	_, ok := parseHex(string(b[start : len(b)-1]))
	return ok
}

// kinds tell documents apart by a field that the others do not have.
var kinds = []struct {
	field string
	make  func() Document
}{
	{"head", func() Document { return new(Ref) }},
	{"txid", func() Document { return new(Version) }},
	{"snapshot", func() Document { return new(Snapshot) }},
	{"window_s", func() Document { return new(Settings) }},
	{"state", func() Document { return new(Sweep) }},
}

// Describe writes a document field by field, or a list of symbols or keys line by line,
// for people and for golden tests. It shows damage instead of stopping at it; the line
// before the last says what Decode thinks. The error is that of w.
func Describe(w io.Writer, b []byte) error {
	out := bufio.NewWriter(w)
	what, err := Check(b)
	fmt.Fprintf(out, "%s, %d bytes\n", what, len(b))
	if len(b) <= MaxLongDocument {
		describeLines(out, b)
	}
	switch {
	case errors.Is(err, ErrNewer), errors.Is(err, ErrOlder):
		fmt.Fprintf(out, "NOT READ: %v\n", err)
	case err != nil:
		fmt.Fprintf(out, "DAMAGED: %v\n", err)
	}
	fmt.Fprintln(out, "end")
	return out.Flush()
}

// describeLines writes the lines, those with an object field by field.
func describeLines(w io.Writer, b []byte) {
	for l := range bytes.Lines(b) {
		l = bytes.TrimSuffix(l, []byte("\n"))
		if len(l) > 0 && l[0] == '{' {
			l = indent(l)
		}
		if !bytes.ContainsFunc(l, func(r rune) bool { return r < ' ' && r != '\n' }) {
			fmt.Fprintf(w, "%s\n", l)
			continue
		}
		fmt.Fprintf(w, "%q\n", l)
	}
}

// indent returns a line field by field, unless it is damaged, or long or deep enough to
// become far longer.
func indent(l []byte) []byte {
	s := newScanner("", l, 0)
	s.Skip()
	var pretty bytes.Buffer
	if s.End() != nil || len(l) > MaxDocument || json.Indent(&pretty, l, "", "  ") != nil {
		return l
	}
	return pretty.Bytes()
}

// Check says what a document or list is ("vref", "symbol list"), and what is wrong with it:
// ErrNewer, ErrOlder, or a codec.ErrCorrupt.
func Check(b []byte) (what string, err error) {
	first, _, _ := bytes.Cut(b, []byte("\n"))
	if len(b) > 0 && b[0] == '[' {
		_, err := DecodeSymbols(b)
		return "symbol list", err
	}
	if checkSwept(Key(first)) == nil {
		_, err := DecodeSweepList(b)
		return "sweep list", err
	}
	fields := map[string]bool{}
	s := newScanner("", first, 0)
	s.Object(nil, func(name string) {
		fields[name] = true
		s.Skip()
	})
	for _, kind := range kinds {
		if fields[kind.field] {
			doc := kind.make()
			return doc.what(), Decode(b, doc)
		}
	}
	_, err = open("document", b, MaxLongDocument)
	return "document", err
}
