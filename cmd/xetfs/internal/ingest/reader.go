package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
)

// A reader fills in entries and reads small files ahead of the packer. Several goroutines use
// one reader.
type reader struct {
	o      *Options
	files  *descriptors
	shards *shardSet
}

// smallBuffer is the room for the small files of a batch. The packer reads the others.
const (
	smallBuffer = 1 << 20
	smallFile   = 64 << 10
)

// read fills in the entries of a batch. An error ends the Ingest.
func (r *reader) read(ctx context.Context, b *batch) error {
	now := time.Now()
	for i := range b.entries {
		e := &b.entries[i]
		if e.state == stateNamed {
			if err := r.look(ctx, b, e, now); err != nil {
				return err
			}
		}
		e.known = nil
		if r.o.Xattrs && e.state != stateSkipped && e.Type != page.Symlink {
			r.xattrs(e)
		}
	}
	return nil
}

// look fills in an entry.
func (r *reader) look(ctx context.Context, b *batch, e *Entry, now time.Time) error {
	var st stat
	if err := r.files.statAt(e.in.fd, e.name(), &st); err != nil {
		e.skip(err)
		return nil
	}
	fillStat(&e.Entry, &st, r.o.Owner)
	switch kind := st.kind(); {
	case kind == unix.S_IFREG:
		return r.file(ctx, b, e, &st, now)
	case r.o.FilesOnly:
		e.skip(KindError{fmt.Errorf("%s; only regular files are packed", kindOf(st.mode))})
	case kind == unix.S_IFLNK:
		r.link(e)
	case kind == unix.S_IFDIR:
		e.skip(errors.New("it became a folder while the folder above was read"))
	default:
		e.skip(KindError{fmt.Errorf("%s; a tree has files, folders and symbolic links", kindOf(st.mode))})
	}
	return nil
}

// fillStat fills in the fields of an entry of any type.
func fillStat(e *page.Entry, st *stat, owner bool) {
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

// kindOf returns the noun for a mode that is no regular file.
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

func (r *reader) link(e *Entry) {
	buf := make([]byte, 256)
	for {
		n, err := r.files.readlinkAt(e.in.fd, e.name(), buf)
		switch {
		case err != nil:
			e.skip(err)
			return
		case n < len(buf):
			e.Target, e.state = string(buf[:n]), stateDone
			return
		default:
			buf = make([]byte, 4*len(buf))
		}
	}
}

// file fills in a regular file.
func (r *reader) file(ctx context.Context, b *batch, e *Entry, st *stat, now time.Time) error {
	e.stat = infoOf(st)
	if err := r.checkMount(e, st); err != nil {
		e.skip(err)
		return nil
	}
	reused, err := r.reuse(ctx, e)
	switch {
	case err != nil:
		return err
	case st.size == 0 && !r.o.FilesOnly:
		e.state = stateDone
	case reused:
		r.o.Progress.Add(st.size)
	case st.size > smallFile || len(b.buf)+int(st.size) >= cap(b.buf) || racy(st, now):
		e.state = stateLarge
	default:
		r.small(ctx, b, e, now)
	}
	return nil
}

// checkMount returns an error for a file on a mount or device that is left out.
func (r *reader) checkMount(e *Entry, st *stat) error {
	err := r.files.mounts.checkMount(e.in.mount, st.mount)
	if err != nil || st.dev == e.in.dev {
		return err
	}
	return r.files.mounts.checkDevice(st.dev, func(fs *unix.Statfs_t) error { return r.files.statfsPath(e.procPath(), fs) })
}

// procPath returns a path of an entry for system calls that need one.
func (f *openFolder) procPath(name string) string {
	if f.fd == unix.AT_FDCWD {
		return name
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", f.fd, name)
}

// racy reports whether a file was changed so recently that a further change may be invisible.
func racy(st *stat, now time.Time) bool {
	age := now.Sub(st.mtime)
	return age >= 0 && age < timeGranularity
}

// reuse takes the content of an unchanged file from the stat cache, and reports whether it did.
func (r *reader) reuse(ctx context.Context, e *Entry) (bool, error) {
	k, noSHA := e.known, r.o.Pack.NoSHA
	if k == nil || r.o.Checksum || k.Stat != e.stat || k.Inline == nil && k.SHA256 == nil && !noSHA {
		return false, nil
	}
	if k.Inline != nil {
		e.Inline = k.Inline
	} else {
		id := k.ID
		if r.o.Place != nil {
			var err error
			if id, err = r.o.Place(ctx, e.Path, id); err != nil {
				return false, err
			}
		}
		if has, err := r.shards.has(ctx, id.Shard); !has || err != nil {
			return false, err
		}
		e.ID = id
		if !noSHA {
			e.SHA256 = k.SHA256
		}
	}
	e.state, e.Unchanged = stateDone, true
	return true, nil
}

// small reads a small file with few system calls. The packer reads a file that has changed
// meanwhile, up to three times. It also reads a file without a free descriptor.
func (r *reader) small(ctx context.Context, b *batch, e *Entry, now time.Time) {
	e.state = stateLarge
	fd, err := r.files.openFile(ctx, e.in.fd, e.name(), noOthers)
	if err != nil {
		if !ui.IsNoDescriptor(err) {
			e.skip(err)
		}
		return
	}
	defer r.files.closeFile(fd)
	if r.o.Update != nil && !e.stat.Racy(now.UnixNano()) {
		if err := r.files.writeOut(fd); err != nil {
			e.skip(err)
			return
		}
	}
	size := int(e.stat.Size)
	buf := b.buf[len(b.buf) : len(b.buf)+size+1] // one more byte detects growth
	n := 0
	for n < size {
		m, err := r.files.read(fd, buf[n:])
		if err != nil || m == 0 {
			return
		}
		n += m
	}
	var after stat
	if n != size || r.files.fstat(fd, &after) != nil || infoOf(&after) != e.stat {
		return
	}
	e.read = now.UnixNano()
	r.o.Progress.Add(e.stat.Size)
	if size <= page.MaxInline && !r.o.FilesOnly {
		e.Inline = append([]byte(nil), buf[:size]...)
		e.state = stateDone
		return
	}
	e.content = buf[:size:size]
	b.buf = b.buf[:len(b.buf)+size]
	e.state = stateRead
}
