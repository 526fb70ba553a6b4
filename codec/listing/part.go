package listing

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A Part has the lines of the shards or xorbs of one folder. It is an object of its own.
type Part struct {
	Folder string // with a slash at its end
	Size   int64  // of the lines, in bytes
	Sum    string // BLAKE3 of the lines, in 64 digits
}

// PartsFolder is the folder of all parts, with a slash at its end.
const PartsFolder = "xetfs.parts/"

// MaxPart is the maximum size of a part in bytes.
const MaxPart = 16 << 20

// Key returns the key of the part.
func (p Part) Key() names.Key { return PartsFolder + names.Key(p.Sum) }

// append adds the line of p to b.
func (p Part) append(b []byte) []byte {
	b = strconv.AppendInt(append(append(b, p.Folder...), ' '), p.Size, 10)
	return append(append(append(b, ' '), p.Sum...), '\n')
}

// isPart reports whether a line is that of a part: no key of an object ends with a slash.
func isPart(line []byte) bool {
	key, _, ok := bytes.Cut(line, []byte{' '})
	return ok && bytes.HasSuffix(key, []byte{'/'})
}

// parsePart reads the line of a part, without its newline.
func parsePart(line string) (p Part, reason string) {
	fields := strings.Split(line, " ")
	if len(fields) != 3 || folderOf(fields[0]) != fields[0] {
		return p, "it is not a folder of shards or xorbs, a size and a checksum"
	}
	size, ok := parseNumber(fields[1])
	_, err := page.ParseHash(fields[2])
	if !ok || size == 0 || size > MaxPart || err != nil {
		return p, "size or checksum of the part is not one"
	}
	return Part{fields[0], size, fields[2]}, ""
}

// folderOf returns the folder of the key of a shard or xorb, of which there are 512. It returns "" for
// other keys.
func folderOf(key string) string {
	for _, prefix := range []string{names.ShardPrefix, names.XorbPrefix} {
		rest, ok := strings.CutPrefix(key, prefix)
		if ok && len(rest) > 2 && isDigit(rest[0]) && isDigit(rest[1]) && rest[2] == '/' {
			return key[:len(prefix)+3]
		}
	}
	return ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// Parts returns the parts with objects below a prefix, in the order of their folders.
func (l *Listing) Parts(prefix string) (all []Part) {
	if l.format < partsFormat {
		return nil
	}
	for line := range bytes.Lines(l.lines) {
		if !isPart(line) {
			continue
		}
		p, _ := parsePart(string(line[:len(line)-1])) // decode has checked it
		if p.isBelow(prefix) {
			all = append(all, p)
		}
	}
	return all
}

// isBelow reports whether a part may have objects below a prefix.
func (p Part) isBelow(prefix string) bool {
	return strings.HasPrefix(p.Folder, prefix) || strings.HasPrefix(prefix, p.Folder)
}

// Part returns the part of a folder, whose path ends with a slash.
func (l *Listing) Part(folder string) (Part, bool) {
	if l.format < partsFormat {
		return Part{}, false
	}
	line, _, found := bytes.Cut(l.lines[l.search(folder):], []byte{'\n'})
	if !found || !isPart(line) {
		return Part{}, false
	}
	p, reason := parsePart(string(line))
	return p, reason == "" && p.Folder == folder
}

// Check returns an error, which is a codec.ErrCorrupt, if b are not the lines of the part.
func (p Part) Check(b []byte) error {
	if int64(len(b)) != p.Size || checksum(b) != p.Sum {
		return fmt.Errorf("%s: %w", p.Key(), corrupt(0, "%d bytes with checksum %s, want %d bytes", len(b), checksum(b), p.Size))
	}
	if len(b) > 0 && b[len(b)-1] != '\n' {
		return fmt.Errorf("%s: %w", p.Key(), corrupt(len(b), "its last line has no end"))
	}
	if err := checkLines(b, 0, p.Folder); err != nil {
		return fmt.Errorf("%s: %w", p.Key(), err)
	}
	return nil
}

func checksum(b []byte) string { return page.Sum(b).String() }

// With returns the listing with the lines of parts, by their checksums. Part.Check has accepted them.
func (l *Listing) With(lines map[string][]byte) *Listing {
	with := *l
	with.parts = lines
	return &with
}

// allLines yields the lines of objects from a place of lines on, also those in parts. It ends before a
// part that has no objects below a prefix. It yields an error for a part whose lines are missing.
func (l *Listing) allLines(from int, prefix string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for line := range bytes.Lines(l.lines[from:]) {
			if l.format < partsFormat || !isPart(line) {
				if !yield(line, nil) {
					return
				}
				continue
			}
			p, _ := parsePart(string(line[:len(line)-1]))
			if !p.isBelow(prefix) {
				return
			}
			lines, ok := l.parts[p.Sum]
			if !ok {
				yield(nil, fmt.Errorf("part %s of the listing was not read", p.Key()))
				return
			}
			for line := range bytes.Lines(lines) {
				if !yield(line, nil) {
					return
				}
			}
		}
	}
}
