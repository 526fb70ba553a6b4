package fusemount

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// An Entry is one mount of a mount table.
type Entry struct {
	Minor  uint32 // of the device: the number of a FUSE connection
	Point  string
	Type   string
	Source string
	Owner  int64 // ID of the user that mounted a FUSE file system; -1: unknown
}

// String returns type and source for people.
func (e *Entry) String() string { return fmt.Sprintf("%s (%s)", e.Type, e.Source) }

// autofsType is the type of a mount point that an automounter watches. The kernel starts the
// automounter when a process uses such a path.
const autofsType = "autofs"

// At returns the mount at path, which must be absolute and free of links, or nil: the
// uppermost of stacked mounts. A mount point of an automounter is no mount.
func At(path string) (*Entry, error) {
	e, err := uppermost(path)
	if err != nil || e == nil || e.Type == autofsType {
		return nil, err
	}
	return e, nil
}

// Above returns the innermost mount of xetfs with path in it, by the names alone, or nil. It sends no
// request to a file system.
func Above(path string) (inner *Entry, err error) {
	_, err = Find("self", func(e *Entry) bool {
		if e.Type == FSType && (e.Point == path || strings.HasPrefix(path, e.Point+"/")) && (inner == nil || len(e.Point) >= len(inner.Point)) {
			inner = e
		}
		return false
	})
	return inner, err
}

// maxLinks bounds the links in a row to a mount.
const maxLinks = 40

// FollowLinks follows the links in path. It sends no request to a mount of xetfs at their end. A
// stopped process would never answer, and the mount of a dead process or of another user would
// refuse the request.
func FollowLinks(path string) (string, error) {
	for at, n := path, 0; n < maxLinks; n++ {
		parent, err := filepath.EvalSymlinks(filepath.Dir(at))
		if err != nil {
			break
		}
		at = filepath.Join(parent, filepath.Base(at))
		if on, err := At(at); err == nil && on != nil && on.Type == FSType {
			return at, nil
		}
		target, err := os.Readlink(at)
		if err != nil || filepath.Clean(target) != target {
			break // a link before a .. would have to be followed first
		}
		if at = target; !filepath.IsAbs(target) {
			at = filepath.Join(parent, target)
		}
	}
	return filepath.EvalSymlinks(path)
}

// IsAutomount reports whether path is a mount point of an automounter without a mount on it. It
// uses no path, because each use by another process group waits for the automounter.
func IsAutomount(path string) bool {
	e, err := uppermost(path)
	return err == nil && e != nil && e.Type == autofsType
}

// uppermost returns the last entry of this process at path, or nil.
func uppermost(path string) (*Entry, error) {
	return Find("self", func(e *Entry) bool { return e.Point == path })
}

// Find returns the last mount of a process that matches, or nil. The process is the name of
// its folder in /proc: a number or "self".
func Find(process string, match func(*Entry) bool) (*Entry, error) {
	table, err := os.ReadFile("/proc/" + process + "/mountinfo")
	if err != nil {
		return nil, err
	}
	return findIn(table, match)
}

// findIn returns the last entry of a table that matches, or nil.
func findIn(table []byte, match func(*Entry) bool) (*Entry, error) {
	var last *Entry
	_, err := mountinfo.GetMountsFromReader(bytes.NewReader(dropLong(table)), func(i *mountinfo.Info) (skip, stop bool) {
		if e := newEntry(i); match(e) {
			last = e
		}
		return true, false
	})
	if err != nil {
		return nil, fmt.Errorf("mountinfo: %w", err)
	}
	return last, nil
}

// dropLong returns a table without the lines that are too long for package mountinfo. Those
// are of overlays with hundreds of layers; lines of FUSE mounts are much shorter.
func dropLong(table []byte) []byte {
	kept := table[:0:0]
	for line := range bytes.Lines(table) {
		if len(line) < bufio.MaxScanTokenSize {
			kept = append(kept, line...)
		}
	}
	return kept
}

func newEntry(i *mountinfo.Info) *Entry {
	e := &Entry{Minor: uint32(i.Minor), Point: i.Mountpoint, Type: i.FSType, Source: i.Source, Owner: -1}
	for option := range strings.SplitSeq(i.VFSOptions, ",") {
		if id, ok := strings.CutPrefix(option, "user_id="); ok {
			if owner, err := strconv.ParseUint(id, 10, 32); err == nil {
				e.Owner = int64(owner)
			}
		}
	}
	return e
}
