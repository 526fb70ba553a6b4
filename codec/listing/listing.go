package listing

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// Key is the key of the listing of a store.
const Key names.Key = "xetfs.list"

// MaxSize is the maximum size of a listing with its parts in bytes: some 500,000 objects.
const MaxSize = names.MaxLongDocument

// A Listing names the objects of a store. It is immutable, and safe for concurrent use.
type Listing struct {
	format   int
	prefixes []string
	lines    []byte            // of objects and parts, checked
	parts    map[string][]byte // see With
}

// A head is the first line of a listing.
type head struct {
	Format   int      `json:"format"`
	Prefixes []string `json:"prefixes"`
}

// partsFormat is the format of a listing with parts.
const partsFormat = 2

// maxHead is the maximum size of the first line in bytes: JSON takes many times as much memory.
const maxHead = 64 << 10

// Decode reads a listing, the checksum first. Errors are names.ErrNewer or codec.ErrCorrupt.
// The Listing refers to b, which must not change.
func Decode(b []byte) (*Listing, error) {
	l, off, err := decode(b)
	if err != nil {
		return nil, err
	}
	if err := l.check(off); err != nil {
		return nil, err
	}
	return l, nil
}

// Unchecked reads a listing that was encoded by this package, as its checksum sum proves: its lines
// are not checked. False: b is another listing, or does not have all Prefixes.
func Unchecked(b []byte, sum string) (*Listing, bool) {
	if sum == "" || SumOf(b) != sum {
		return nil, false
	}
	l, _, err := decode(b)
	return l, err == nil && slices.Equal(l.prefixes, Prefixes())
}

// SumOf returns the checksum in the last line of a listing, which it does not compare. It returns ""
// for bytes that are no listing.
func SumOf(b []byte) string {
	if len(b) < sumLine {
		return ""
	}
	return string(b[len(b)-sumLine : len(b)-1])
}

// DecodePaths returns the objects of an encoded listing whose path is not their key. Errors are those of
// Decode, but it does not check the lines of a listing without paths.
func DecodePaths(b []byte) (all []Object, err error) {
	l, off, err := decode(b)
	if err != nil || bytes.Count(l.lines, []byte{' '}) == 2*bytes.Count(l.lines, []byte{'\n'}) {
		return nil, err
	}
	if err := l.check(off); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(l.lines) {
		if o, _ := parseObject(string(line[:len(line)-1])); o.Path != "" {
			all = append(all, o)
		}
	}
	return all, nil
}

// sumLine is the length of the last line in bytes.
const sumLine = 2*len(page.Hash{}) + 1

// decode returns a listing with its first line at offset off, whose lines are not checked.
func decode(b []byte) (l *Listing, off int, err error) {
	if len(b) > MaxSize {
		return nil, 0, corrupt(MaxSize, "%d bytes, at most %d are allowed", len(b), MaxSize)
	}
	body := len(b) - sumLine
	if body < 1 || b[body-1] != '\n' || b[len(b)-1] != '\n' {
		return nil, 0, corrupt(len(b), "no line with a checksum at the end")
	}
	sum := page.Sum(b[:body-1])
	if want := hex.EncodeToString(sum[:]); string(b[body:len(b)-1]) != want {
		return nil, 0, corrupt(body, "checksum %q, want %s", b[body:len(b)-1], want)
	}
	first, lines, _ := bytes.Cut(b[:body], []byte{'\n'})
	h, err := decodeHead(first)
	if err != nil {
		return nil, 0, err
	}
	return &Listing{format: h.Format, prefixes: h.Prefixes, lines: lines}, len(first) + 1, nil
}

// decodeHead decodes the first line.
func decodeHead(line []byte) (h head, err error) {
	if len(line) > maxHead {
		return h, corrupt(maxHead, "its first line has %d bytes, at most %d are allowed", len(line), maxHead)
	}
	err = json.Unmarshal(line, &h)
	switch {
	case err != nil:
		return h, corrupt(0, "%v", err)
	case h.Format > partsFormat:
		return h, fmt.Errorf("listing of format %d: %w", h.Format, names.ErrNewer)
	case h.Format < 1:
		return h, corrupt(0, "format %d is not known", h.Format)
	}
	return h, nil
}

// check checks every line; the first is at offset off of the listing.
func (l *Listing) check(off int) error {
	if l.format < partsFormat {
		return checkLines(l.lines, off, "")
	}
	inPart, size := "", int64(len(l.lines))
	return checkEach(l.lines, off, func(line string) (key, reason string) {
		if isPart([]byte(line)) {
			var p Part
			p, reason = parsePart(line)
			inPart = p.Folder
			if size += p.Size; size > MaxSize && reason == "" {
				reason = fmt.Sprintf("all parts have more than %d bytes", MaxSize)
			}
			return p.Folder, reason
		}
		o, reason := parseObject(line)
		if inPart != "" && strings.HasPrefix(string(o.Key), inPart) {
			reason = "its folder has a part"
		}
		return string(o.Key), reason
	})
}

// checkLines checks lines of objects whose keys begin with a prefix.
func checkLines(lines []byte, off int, prefix string) error {
	return checkEach(lines, off, func(line string) (key, reason string) {
		o, reason := parseObject(line)
		if reason == "" && !strings.HasPrefix(string(o.Key), prefix) {
			reason = "it is not of this part"
		}
		return string(o.Key), reason
	})
}

// checkEach checks each line and the order of their keys. The first line is at an offset of its object.
func checkEach(lines []byte, off int, parse func(line string) (key, reason string)) error {
	var before []byte
	for line := range bytes.Lines(lines) {
		key, reason := parse(string(line[:len(line)-1]))
		if reason == "" && key <= string(before) {
			reason = "its key does not sort after the one before"
		}
		if reason != "" {
			return corrupt(off, "line %.100q: %s", line, reason)
		}
		before = line[:len(key)]
		off += len(line)
	}
	return nil
}

func corrupt(off int, format string, args ...any) error {
	return codec.Corrupt("listing", int64(off), format, args...)
}

// Find returns one object that is in no part.
func (l *Listing) Find(k names.Key) (Object, bool) {
	line, _, found := bytes.Cut(l.lines[l.search(string(k)):], []byte{'\n'})
	if !found {
		return Object{}, false
	}
	o, reason := parseObject(string(line))
	return o, reason == "" && o.Key == k
}

// List yields the objects whose keys start with prefix and sort after a given one, in order. It
// yields errors.ErrUnsupported for a prefix that is not listed. The Listing must have the lines of
// all Parts of the prefix.
func (l *Listing) List(prefix string, after names.Key) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if !l.covers(prefix) {
			yield(Object{}, fmt.Errorf("the listing does not have %q: %w", prefix, errors.ErrUnsupported))
			return
		}
		from := prefix
		if string(after) >= from {
			from = string(after) + "\x00"
		}
		place := l.search(from)
		if p, ok := l.partBefore(place); ok && strings.HasPrefix(from, p.Folder) {
			place = l.search(p.Folder)
		}
		for line, err := range l.allLines(place, prefix) {
			if err != nil {
				yield(Object{}, err)
				return
			}
			o, _ := parseObject(string(line[:len(line)-1])) // Decode has checked it
			if string(o.Key) < from {
				continue // in the first part
			}
			if !strings.HasPrefix(string(o.Key), prefix) || !yield(o, nil) {
				return
			}
		}
	}
}

// Lines returns the lines of the objects below a folder, whose path ends with a slash, if it has no
// part. Builder.AddLines adds them to another listing.
func (l *Listing) Lines(folder string) []byte {
	behind := folder[:len(folder)-1] + "0" // the byte after a slash
	return l.lines[l.search(folder):l.search(behind)]
}

// partBefore returns the part whose line precedes a place of lines.
func (l *Listing) partBefore(place int) (Part, bool) {
	if l.format < partsFormat || place == 0 {
		return Part{}, false
	}
	line := l.lines[bytes.LastIndexByte(l.lines[:place-1], '\n')+1 : place-1]
	if !isPart(line) {
		return Part{}, false
	}
	p, reason := parsePart(string(line))
	return p, reason == ""
}

// covers reports whether every object that begins with prefix is listed.
func (l *Listing) covers(prefix string) bool {
	return slices.ContainsFunc(l.prefixes, func(p string) bool { return strings.HasPrefix(prefix, p) })
}

// search returns the offset of the first line whose key is not below the given one.
func (l *Listing) search(key string) int {
	lo, hi := 0, len(l.lines) // both at the beginning of a line, or at the end
	for lo < hi {
		mid := lo + (hi-lo)/2
		mid = bytes.LastIndexByte(l.lines[:mid], '\n') + 1 // not before lo, which begins a line
		end := mid + bytes.IndexByte(l.lines[mid:], '\n') + 1
		line, _, _ := bytes.Cut(l.lines[mid:end], []byte{' '})
		if string(line) < key {
			lo = end
		} else {
			hi = mid
		}
	}
	return lo
}
