package ingest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
)

// xattrs reads the extended attributes with the prefix "user.". An entry whose attributes
// cannot be read or stored is taken without them, and named.
func (r *reader) xattrs(e *Entry) {
	path := e.procPath()
	list, err := readGrowing(func(buf []byte) (int, error) { return r.files.listxattr(path, buf) })
	if errors.Is(err, unix.ENOTSUP) {
		return
	}
	for name := range strings.SplitSeq(string(list), "\x00") {
		if err != nil {
			break
		}
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		var value []byte
		value, err = readGrowing(func(buf []byte) (int, error) { return r.files.getxattr(path, name, buf) })
		switch {
		case errors.Is(err, unix.ENODATA):
			err = nil // deleted meanwhile
		case err == nil && e.Xattrs == nil:
			e.Xattrs = map[string]string{name: string(value)}
		case err == nil:
			e.Xattrs[name] = string(value)
		}
	}
	if err == nil && e.Xattrs != nil {
		err = checkXattrs(&e.Entry)
	}
	if err != nil {
		e.Xattrs, e.why = nil, PartialError{fmt.Errorf("published without its extended attributes: %w", err)}
	}
}

// checkXattrs returns an error for attributes that cannot be stored, because they are too many.
// It does not check the other fields, which may be incomplete.
func checkXattrs(e *page.Entry) error {
	alone := page.Entry{Path: e.Path, Type: page.Dir, ModTime: time.Unix(0, 0), Xattrs: e.Xattrs}
	return alone.Check()
}

// readGrowing calls read with a longer buffer while it returns ERANGE.
func readGrowing(read func([]byte) (int, error)) ([]byte, error) {
	for size := 256; ; {
		buf := make([]byte, size)
		n, err := read(buf)
		switch {
		case errors.Is(err, unix.ERANGE) && size < 1<<20:
			size *= 4
		case err != nil:
			return nil, err
		default:
			return buf[:n], nil
		}
	}
}
