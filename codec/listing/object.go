package listing

import (
	"bytes"
	"errors"
	"io/fs"
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
func parseObject(line []byte) (o Object, reason string) {
	if bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return o, "it holds bytes that no key has"
	}
	f := strings.SplitN(string(line), " ", 5)
	if len(f) != 3 && len(f) != 4 || f[0] == "" {
		return o, "it is not a key, a size, a time and maybe a path"
	}
	size, err := parseNumber(f[1])
	modified, err2 := parseNumber(f[2])
	if err != nil || err2 != nil {
		return o, "size or time is not a number"
	}
	o = Object{Key: names.Key(f[0]), Size: size, Modified: time.Unix(0, modified)}
	if len(f) == 4 {
		o.Path = f[3]
		plain, err := url.PathUnescape(o.Path)
		if err != nil || !fs.ValidPath(plain) || plain == "." {
			return o, "its path is not one below the store"
		}
	}
	return o, ""
}

// parseNumber reads a number, which has one spelling.
func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && strconv.FormatInt(n, 10) != text || n < 0 {
		err = errors.New("not a plain number")
	}
	return n, err
}
