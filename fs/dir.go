package fs

import (
	"errors"
	iofs "io/fs"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
)

// Lookup implements fuse.RawFileSystem. The kernel may also cache the absence of a name.
func (f *filesystem) Lookup(interrupted <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if len(name) > maxName {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	dir, ok := f.nodes.get(in.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	limit := f.metaLimit()
	req := newRequest(interrupted, in.Pid, f.lookups.limit(in.NodeId, limit))
	defer req.end()
	vol, path := dir.ver.vol, join(dir.path, name)
	e, from, err := vol.find(req, path)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		out.SetEntryTimeout(vol.ttlOfAbsent(path))
		return fuse.OK
	case err != nil:
		f.lookups.failed(in.NodeId, req.elapsed(), limit)
		return f.failed("lookup", dir.ver, &page.Entry{Path: path}, 0, err)
	}
	f.attr(&e, &out.Attr)
	f.fillEntry(from.vol.identify(&e), e.Path, from, out)
	out.SetEntryTimeout(vol.ttlOfName(e.Type))
	if e.Type != page.Dir {
		f.predictors.lookedUp(in.Pid)
	}
	return fuse.OK
}

// fillEntry completes a reply with attributes and counts the lookup.
func (f *filesystem) fillEntry(id identity, path string, from *version, out *fuse.EntryOut) {
	ino := rootID.ino
	if id != rootID {
		ino = f.nodes.addLookup(id, path, from)
	}
	out.NodeId, out.Ino, out.Generation = ino, ino, id.gen
	out.SetAttrTimeout(from.vol.attrTTL)
}

// OpenDir implements fuse.RawFileSystem. An open directory shows one version to its end. After
// ENOSYS the kernel sends no OPENDIR and RELEASEDIR, and its messages have no handle.
func (f *filesystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if f.listings != nil {
		return fuse.ENOSYS
	}
	n, ok := f.nodes.get(in.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	h := &dirHandle{ver: n.ver.vol.current.Load(), path: n.path, ino: in.NodeId}
	f.sequences.Listed(h.ver, h.path)
	out.Fh = f.dirs.add(h)
	out.OpenFlags = f.stale.openFlags(h)
	return fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (f *filesystem) ReleaseDir(in *fuse.ReleaseIn) {
	if h, ok := f.dirs.remove(in.Fh); ok {
		h.close()
		f.stale.dirClosed(h)
	}
}

// ReadDir implements fuse.RawFileSystem.
func (f *filesystem) ReadDir(interrupted <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	req := f.newMetaRequest(interrupted, in.Pid)
	defer req.end()
	h, done, status := f.takeDir(req, in)
	if !status.Ok() {
		return status
	}
	defer done()
	return f.list(req, h, in, func(d fuse.DirEntry, _ *dirEntry) bool { return out.AddDirEntry(d) })
}

// ReadDirPlus implements fuse.RawFileSystem: a listing with a lookup of each name. An entry
// without a number is a name alone, and the kernel looks it up when necessary. Such entries are
// files for threads that ignore attributes (statPredictor), volumes, and entries of an old
// version. The names that the kernel caches are those of the new version.
func (f *filesystem) ReadDirPlus(interrupted <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	req := f.newMetaRequest(interrupted, in.Pid)
	defer req.end()
	h, done, status := f.takeDir(req, in)
	if !status.Ok() {
		return status
	}
	defer done()
	shown, stats, files := h.ver.isCurrent(), f.predictors.wantsAttrs(in.Pid), 0
	defer func() { f.predictors.attrsSent(in.Pid, files) }()
	return f.list(req, h, in, func(d fuse.DirEntry, l *dirEntry) bool {
		reply := out.AddDirLookupEntry(d)
		if reply == nil {
			return false
		}
		if l != nil && l.hasAttr && shown && (l.kind == page.Dir || stats && !isProbe(l.id)) {
			if l.kind != page.Dir {
				files++
			}
			reply.Attr = l.attr
			f.fillEntry(l.id, l.path, h.ver, reply)
			reply.SetEntryTimeout(h.ver.vol.ttlOfName(l.kind))
		}
		return true
	})
}

// list calls add for the entries after in.Offset until add returns false. The entries "." and
// ".." are nil.
func (f *filesystem) list(req *request, h *dirHandle, in *fuse.ReadIn, add func(fuse.DirEntry, *dirEntry) bool) fuse.Status {
	in = &fuse.ReadIn{InHeader: in.InHeader, Offset: placeOf(in.Offset)}
	off := in.Offset
	for ; off < 2; off++ {
		if !add(h.dots(off), nil) {
			return fuse.OK
		}
	}
	l := h.take()
	defer func() { h.put(l) }()
	for n := off - 2; ; {
		names, err := f.namesBehind(req, h, l, n)
		if err != nil && off > in.Offset {
			return fuse.OK // the next message returns the error
		}
		if err != nil {
			return f.failed("list", h.ver, &page.Entry{Path: h.path}, in.NodeId, err)
		}
		if len(names) == 0 {
			if off == in.Offset {
				f.ending(h, l)
			}
			return fuse.OK
		}
		for i := range names {
			name := &names[i]
			n = name.n
			if name.path == "" {
				continue
			}
			if !add(fuse.DirEntry{Name: name.name, Mode: typeBits(name.kind), Ino: name.id.ino, Off: h.offset(n + 2)}, name) {
				return fuse.OK
			}
			off = n + 2
		}
	}
}

// dots returns the entry "." for offset 0 and ".." for offset 1.
func (h *dirHandle) dots(off uint64) fuse.DirEntry {
	if off == 0 {
		return fuse.DirEntry{Name: ".", Mode: syscall.S_IFDIR, Ino: h.ino, Off: h.offset(1)}
	}
	vol, path := h.ver.vol, h.path
	if path == "" && vol.parent != nil {
		vol, path = vol.parent, vol.at
	}
	return fuse.DirEntry{Name: "..", Mode: syscall.S_IFDIR, Ino: vol.dirID(parent(path)).ino, Off: h.offset(2)}
}

// Readlink implements fuse.RawFileSystem. Only the kernel follows the target.
func (f *filesystem) Readlink(interrupted <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	req := f.newMetaRequest(interrupted, in.Pid)
	defer req.end()
	e, _, status := f.entry(req, in.NodeId)
	if !status.Ok() {
		return nil, status
	}
	if e.Type != page.Symlink {
		return nil, fuse.Status(syscall.EINVAL)
	}
	return []byte(e.Target), fuse.OK
}
