package listing

import (
	"io/fs"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/codec/names"
)

// An Object is one line of a listing.
type Object struct {
	Key      names.Key
	Size     int64
	Modified time.Time // by the clock of the store
	Path     string    // of its file, escaped as EscapePath does; "": the key
}

// EscapePath returns a slash path as a listing has it.
func EscapePath(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// append adds the line of o to b.
func (o Object) append(b []byte) []byte {
	b = append(b, o.Key...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, o.Size, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, max(0, o.Modified.UnixNano()), 10)
	if o.Path != "" {
		b = append(append(b, ' '), o.Path...)
	}
	return append(b, '\n')
}

// parseObject reads one line, or returns the reason why it is bad. Unknown keys are good,
// because a newer writer may have put them.
func parseObject(line string) (o Object, reason string) {
	for i := range len(line) {
		if c := line[i]; c < ' ' || c > '~' {
			return o, "it holds bytes that no key has"
		}
	}
	key, rest, ok := strings.Cut(line, " ")
	size, rest, ok2 := strings.Cut(rest, " ")
	modified, rest, hasPath := strings.Cut(rest, " ")
	if !ok || !ok2 || key == "" || strings.Contains(rest, " ") {
		return o, "it is not a key, a size, a time and maybe a path"
	}
	length, ok := parseNumber(size)
	when, ok2 := parseNumber(modified)
	if !ok || !ok2 {
		return o, "size or time is not a number"
	}
	o = Object{Key: names.Key(key), Size: length, Modified: time.Unix(0, when)}
	if hasPath {
		o.Path = rest
		plain, err := url.PathUnescape(o.Path)
		if err != nil || !fs.ValidPath(plain) || plain == "." {
			return o, "its path is not one below the store"
		}
	}
	return o, ""
}

// parseNumber reads a number, which has one spelling.
func parseNumber(text string) (n int64, ok bool) {
	if text == "" || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		c := text[i]
		if c < '0' || c > '9' || n > (math.MaxInt64-int64(c-'0'))/10 {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}
