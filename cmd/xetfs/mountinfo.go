package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// fsType is what the kernel calls our mounts in its table.
const fsType = "fuse.xetfs"

// A mountEntry is one line of /proc/self/mountinfo, as far as we need it:
//
//	36 35 0:42 / /mnt/x ro,nosuid … - fuse.xetfs /data ro,user_id=0,…
//	      dev  root point         options   type   source
type mountEntry struct {
	Minor  uint32 // of the device, which is the number of a FUSE connection
	Point  string
	Type   string
	Source string
	Owner  int64 // number of the user who mounted a FUSE file system; -1: not known
}

// String says for people what is mounted.
func (e *mountEntry) String() string { return fmt.Sprintf("%s (%s)", e.Type, e.Source) }

// mountAt returns what is mounted at path, which must be absolute and free of links,
// or nil. Of several mounts on top of each other it is the uppermost.
func mountAt(path string) (*mountEntry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return findMount(f, path)
}

// findMount returns the last entry of a table whose mount point is path, or nil.
func findMount(table io.Reader, path string) (*mountEntry, error) {
	return scanMounts(table, func(e *mountEntry) bool { return e.Point == path })
}

// scanMounts returns the last entry of a table that fits, or nil.
func scanMounts(table io.Reader, fits func(*mountEntry) bool) (*mountEntry, error) {
	var found *mountEntry
	lines := bufio.NewScanner(table)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e, err := parseMount(lines.Text())
		if err != nil {
			return nil, err
		}
		if fits(e) {
			found = e
		}
	}
	return found, lines.Err()
}

// parseMount reads one line. The optional fields end at a lone dash.
func parseMount(line string) (*mountEntry, error) {
	front, back, ok := strings.Cut(line, " - ")
	head, tail := strings.Fields(front), strings.Split(back, " ") // a source may be empty
	if !ok || len(head) < 6 || len(tail) < 1 {
		return nil, fmt.Errorf("mountinfo: line %.200q is not understood", line)
	}
	e := &mountEntry{Point: unescapeMount(head[4]), Type: tail[0], Owner: -1}
	if len(tail) > 1 {
		e.Source = unescapeMount(tail[1])
	}
	for option := range strings.SplitSeq(tail[len(tail)-1], ",") {
		if id, ok := strings.CutPrefix(option, "user_id="); ok && len(tail) > 2 {
			owner, err := strconv.ParseUint(id, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("mountinfo: user %.80q is not understood", id)
			}
			e.Owner = int64(owner)
		}
	}
	_, minor, _ := strings.Cut(head[2], ":")
	n, err := strconv.ParseUint(minor, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("mountinfo: device %.80q is not understood", head[2])
	}
	e.Minor = uint32(n)
	return e, nil
}

// unescapeMount undoes what the kernel does to spaces, tabs, newlines and backslashes:
// \040 and the like.
func unescapeMount(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if n, err := strconv.ParseUint(after[:min(3, len(after))], 8, 8); err == nil && len(after) >= 3 {
			b.WriteByte(byte(n))
			s = after[3:]
			continue
		}
		b.WriteByte('\\')
		s = after
	}
}
