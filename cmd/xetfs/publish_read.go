package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
)

// A foundReader looks at what was found, and reads small files, so that the packer does
// not wait for each of them. Several work at a time.
type foundReader struct {
	owner, xattrs, noSHA bool
	checksum             bool // ignore the stat cache
	files                *walkFiles
	bar                  *ui.Progress
	shards               *reusable
}

// Room for the small files of a batch. Those that do not fit are left to the packer.
const (
	smallRoom = 1 << 20
	smallFile = 64 << 10
)

// read looks at everything in a batch.
func (r *foundReader) read(ctx context.Context, b *foundBatch) {
	now := time.Now()
	for i := range b.found {
		f := &b.found[i]
		if f.state == foundNamed {
			r.look(ctx, b, f, now)
		}
		f.known = nil
		if r.xattrs && f.state != foundSkipped && f.entry.Type != page.Symlink {
			r.attributes(f)
		}
	}
}

// look finds out what something is.
func (r *foundReader) look(ctx context.Context, b *foundBatch, f *found, now time.Time) {
	var st fileStat
	if err := r.files.statAt(f.in.fd, f.name(), &st); err != nil {
		f.skip(err)
		return
	}
	fromStat(&f.entry, &st, r.owner)
	switch st.kind() {
	case unix.S_IFREG:
		r.file(ctx, b, f, &st, now)
	case unix.S_IFLNK:
		r.link(f)
	case unix.S_IFDIR:
		f.skip(errors.New("it became a folder while the folder above was read"))
	default:
		f.skip(kindError{fmt.Errorf("%s; a tree has files, folders and symbolic links", kindOf(st.mode))})
	}
}

// fromStat fills in what an entry of any type has.
func fromStat(e *page.Entry, st *fileStat, owner bool) {
	e.Mode = st.mode & 0o7777
	e.ModTime = st.mtime.UTC()
	switch st.kind() {
	case unix.S_IFDIR:
		e.Type = page.Dir
	case unix.S_IFLNK:
		e.Type = page.Symlink
	default:
		e.Type, e.Size = page.File, st.size
	}
	if owner {
		e.Owner = &page.Owner{UID: st.uid, GID: st.gid}
	}
}

// kindOf says what a file of some mode is that is no regular file.
func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFBLK, unix.S_IFCHR:
		return "a device"
	}
	return "not a file"
}

func (r *foundReader) link(f *found) {
	buf := make([]byte, 256)
	for {
		n, err := r.files.readlinkAt(f.in.fd, f.name(), buf)
		switch {
		case err != nil:
			f.skip(err)
			return
		case n < len(buf):
			f.entry.Target, f.state = string(buf[:n]), foundDone
			return
		default:
			buf = make([]byte, 4*len(buf))
		}
	}
}

// file deals with a regular file.
func (r *foundReader) file(ctx context.Context, b *foundBatch, f *found, st *fileStat, now time.Time) {
	f.stat = statInfo(st)
	if err := r.files.checkFile(f.in, f.name(), st); err != nil {
		f.skip(err)
		return
	}
	switch {
	case st.size == 0:
		f.state = foundDone
	case r.believe(ctx, f):
		r.bar.Add(st.size)
	case st.size > smallFile || len(b.buf)+int(st.size) >= cap(b.buf) || unsettled(st, now):
		f.state = foundLarge
	default:
		r.small(ctx, b, f, now)
	}
}

// checkFile says why a file on another mount or device than its folder is left out.
func (w *walkFiles) checkFile(in *openFolder, name string, st *fileStat) error {
	err := w.mounts.checkMount(in.mount, st.mount)
	if err != nil || st.dev == in.dev {
		return err
	}
	path := fmt.Sprintf("/proc/self/fd/%d/%s", in.fd, name)
	return w.mounts.checkDevice(st.dev, func(fs *unix.Statfs_t) error { return w.statfsPath(path, fs) })
}

// unsettled says whether a file was changed so short a time ago that a further change
// might not be seen.
func unsettled(st *fileStat, now time.Time) bool {
	age := now.Sub(st.mtime)
	return age >= 0 && age < settle
}

// believe takes the content of a file from the stat cache, if it is unchanged.
func (r *foundReader) believe(ctx context.Context, f *found) bool {
	k := f.known
	switch {
	case k == nil || r.checksum || k.Stat != f.stat:
		return false
	case k.Inline != nil:
		f.entry.Inline = k.Inline
	case k.SHA256 == nil && !r.noSHA || !r.shards.has(ctx, k.ID.Shard):
		return false
	default:
		f.entry.ID = k.ID
		if !r.noSHA {
			f.entry.SHA256 = k.SHA256
		}
	}
	f.state = foundDone
	return true
}

// small reads a small file with as few system calls as possible. A file that has changed
// since it was looked at is left to the packer, which reads it up to three times. So is one
// for which no descriptor is free.
func (r *foundReader) small(ctx context.Context, b *foundBatch, f *found, now time.Time) {
	f.state = foundLarge
	fd, err := r.files.openFile(ctx, f.in.fd, f.name(), noOthers)
	if err != nil {
		if !isNoDescriptor(err) {
			f.skip(err)
		}
		return
	}
	defer r.files.closeFile(fd)
	if !f.stat.Racy(now.UnixNano()) { // else the stat cache does not take it
		if err := r.files.writeOut(fd); err != nil {
			f.skip(err)
			return
		}
	}
	size := int(f.stat.Size)
	room := b.buf[len(b.buf) : len(b.buf)+size+1] // one more shows that it has grown
	n := 0
	for n < size {
		m, err := r.files.read(fd, room[n:])
		if err != nil || m == 0 {
			return
		}
		n += m
	}
	var after fileStat
	if n != size || r.files.fstat(fd, &after) != nil || statInfo(&after) != f.stat {
		return
	}
	f.read = now.UnixNano()
	r.bar.Add(f.stat.Size)
	if size <= page.MaxInline {
		f.entry.Inline = append([]byte(nil), room[:size]...)
		f.state = foundDone
		return
	}
	f.content = room[:size:size]
	b.buf = b.buf[:len(b.buf)+size]
	f.state = foundRead
}

// attributes reads the extended attributes that users give. A file with some that cannot be
// read or stored is published without, and named.
func (r *foundReader) attributes(f *found) {
	path := fmt.Sprintf("/proc/self/fd/%d/%s", f.in.fd, f.name())
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
			err = nil // it is gone
		case err == nil && f.entry.Xattrs == nil:
			f.entry.Xattrs = map[string]string{name: string(value)}
		case err == nil:
			f.entry.Xattrs[name] = string(value)
		}
	}
	if err == nil && f.entry.Xattrs != nil {
		err = checkXattrs(&f.entry)
	}
	if err != nil {
		f.entry.Xattrs, f.why = nil, fmt.Errorf("published without its extended attributes: %w", err)
	}
}

// checkXattrs says why the attributes of an entry cannot be stored: they may be too many. The
// entry itself is not complete yet.
func checkXattrs(e *page.Entry) error {
	alone := page.Entry{Path: e.Path, Type: page.Dir, ModTime: time.Unix(0, 0), Xattrs: e.Xattrs}
	return alone.Check()
}

// readGrowing calls a function that says ERANGE until the buffer is long enough.
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
